-- What agents remember of earlier sessions: one row a summary. Names are compared by their bytes.
CREATE TABLE orchestrator_summary (
    owner text COLLATE "C" NOT NULL,       -- the agent and its alias
    memory_id text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    started bigint NOT NULL,               -- nanoseconds since 1970
    expires bigint,                        -- the same; never when it is null
    body text NOT NULL,                    -- topics and text, as JSON in ASCII
    PRIMARY KEY (owner, memory_id, session_id)
);
CREATE INDEX orchestrator_summary_by_time
    ON orchestrator_summary (owner, memory_id, started DESC, session_id DESC);

-- Sessions that are to be summarised some day.
CREATE TABLE orchestrator_touched (
    owner text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    memory_id text COLLATE "C" NOT NULL,
    at bigint NOT NULL,                    -- when its last turn began
    PRIMARY KEY (owner, session_id)
);
