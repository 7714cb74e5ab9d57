-- Every version of every rule: a window is judged by the version of its own start (Q51), also when it is late, filled
-- in afterwards or asked about after the configuration has changed. Rules that are gone from the configuration stay.
CREATE TABLE rules (
    name TEXT NOT NULL,
    -- From 1 on, without gaps.
    version INTEGER NOT NULL CHECK (version >= 1),
    -- The first window start that it judges, up to the next version's; NULL in one that judges whatever lies before.
    first_window INTEGER,
    -- Window, threshold, match and all else that it says.
    content TEXT NOT NULL CHECK (json_valid(content)),
    created_at INTEGER NOT NULL,
    PRIMARY KEY (name, version)
) STRICT, WITHOUT ROWID;
