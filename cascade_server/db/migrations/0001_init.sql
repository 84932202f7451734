-- Traces stay when their folder goes, since runs refer to them; `present` tells.
CREATE TABLE traces (
    id         TEXT PRIMARY KEY,
    path       TEXT NOT NULL,
    present    INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    summary    TEXT NOT NULL,   -- TraceSummary as JSON
    metadata   TEXT,            -- metadata.json as it was found
    kernels    TEXT NOT NULL    -- [KernelLaunch] as JSON
) STRICT;

CREATE TABLE runs (
    id         TEXT PRIMARY KEY,
    trace_id   TEXT NOT NULL REFERENCES traces (id),
    created_at TEXT NOT NULL,
    entries    TEXT NOT NULL,   -- [RunEntry] as JSON
    sample     INTEGER NOT NULL,
    replay     INTEGER NOT NULL,
    notice     TEXT
) STRICT;

-- In order of creation by rowid: pending sims start in that order.
CREATE TABLE sims (
    id                TEXT PRIMARY KEY,
    run_id            TEXT NOT NULL REFERENCES runs (id),
    gpu_config        TEXT NOT NULL,
    arch              TEXT NOT NULL,
    core_clock_mhz    REAL NOT NULL,
    replica           INTEGER NOT NULL,
    state             TEXT NOT NULL,
    error             TEXT,
    attempt           INTEGER NOT NULL DEFAULT 1,
    launcher_ref      TEXT,
    replay_log        TEXT,     -- path of the recording it replays
    replay_of         TEXT,     -- its name
    stand_in          INTEGER NOT NULL,
    created_at        TEXT NOT NULL,
    started_at        TEXT,
    finished_at       TEXT,
    last_heartbeat_at TEXT,
    exit_code         INTEGER,
    kernels_done      INTEGER NOT NULL DEFAULT 0,
    kernels_total     INTEGER NOT NULL,
    current_kernel    TEXT,
    blocks_issued     INTEGER,
    blocks_total      INTEGER,
    gpu_tot_sim_cycle REAL,
    gpu_tot_sim_insn  REAL,
    gpu_tot_ipc       REAL,
    sim_rate_ips      REAL,
    log_lines         INTEGER NOT NULL DEFAULT 0,
    log_unterminated  INTEGER NOT NULL DEFAULT 0,
    log_tail          TEXT NOT NULL DEFAULT '[]',
    checkpoint        TEXT,     -- where and how the parser goes on after a restart
    UNIQUE (run_id, gpu_config, replica)
) STRICT;
CREATE INDEX sims_by_state ON sims (state);

-- The log, byte for byte: zstd of lines each ended by a line feed. Small chunks are merged into larger frames.
CREATE TABLE log_chunks (
    sim_id     TEXT NOT NULL REFERENCES sims (id),
    first_line INTEGER NOT NULL,
    line_count INTEGER NOT NULL,
    raw_bytes  INTEGER NOT NULL,
    data       BLOB NOT NULL,
    PRIMARY KEY (sim_id, first_line)
) STRICT;

-- A kernel's full statistics are a view of its block of lines in the log.
CREATE TABLE kernels (
    sim_id            TEXT NOT NULL REFERENCES sims (id),
    kernel_index      INTEGER NOT NULL,
    kernel_name       TEXT NOT NULL,
    name_inferred     INTEGER NOT NULL,
    kernel_launch_uid INTEGER,
    stream_id         INTEGER,
    gpu_sim_cycle     INTEGER,
    gpu_sim_insn      INTEGER,
    gpu_ipc           REAL,
    partial           INTEGER NOT NULL,
    first_line        INTEGER NOT NULL,
    line_count        INTEGER NOT NULL,
    PRIMARY KEY (sim_id, kernel_index)
) STRICT, WITHOUT ROWID;
