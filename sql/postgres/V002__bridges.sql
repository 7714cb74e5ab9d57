-- What had been reached when the row was judged last: the window itself, or only a run over its start (W-3). A start
-- needs it, since counts that are cut at the committed offsets may not show it yet. Rows from before have their own.
ALTER TABLE incidents ADD COLUMN reach text NOT NULL DEFAULT 'own' CHECK (reach IN ('run', 'own'));

ALTER TABLE incident_transitions
DROP CONSTRAINT incident_transitions_transition_check,
ADD CONSTRAINT incident_transitions_transition_check
CHECK (transition IN ('opened', 'closed', 'superseded', 'withdrawn', 'returned'));
