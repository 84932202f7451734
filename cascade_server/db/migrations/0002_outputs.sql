-- Output files: the bytes lie in the data folder under `stored`, a name of their own for each version, so that a
-- replacement is this row's change and nothing else.
CREATE TABLE files (
    sim_id       TEXT NOT NULL REFERENCES sims (id),
    name         TEXT NOT NULL,
    size         INTEGER NOT NULL,
    content_type TEXT NOT NULL,
    created_at   TEXT NOT NULL,
    stored       TEXT NOT NULL,
    PRIMARY KEY (sim_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE step_timelines (
    sim_id    TEXT PRIMARY KEY REFERENCES sims (id),
    simulated TEXT NOT NULL,
    compare   TEXT
) STRICT, WITHOUT ROWID;
