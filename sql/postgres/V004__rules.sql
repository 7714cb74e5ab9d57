-- Every version of every rule: a window is judged by the version of its own start (Q51), also when it is late, filled
-- in afterwards or asked about after the configuration has changed. Rules that are gone from the configuration stay.
CREATE TABLE rules (
    pipeline text NOT NULL,
    name text NOT NULL,
    -- From 1 on, without gaps.
    version integer NOT NULL CHECK (version >= 1),
    -- The first window start that it judges, up to the next version's; NULL in one that judges whatever lies before.
    first_window timestamptz,
    -- Window, threshold, match and all else that it says.
    content jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (pipeline, name, version)
);
