-- Journals of sessions: one row a record, and one row a session that knows how many there are.
-- Keys and labels are compared by their bytes, whatever the database's language is.
CREATE TABLE orchestrator_session (
    key text COLLATE "C" PRIMARY KEY,
    label text COLLATE "C" NOT NULL,
    updated bigint NOT NULL,      -- nanoseconds since 1970
    records integer NOT NULL,     -- the fence: an append names how many it expects
    unfinished boolean NOT NULL,  -- whether its last turn was left without an end
    sum bigint NOT NULL           -- CRC-32 of the entry
);
CREATE INDEX orchestrator_session_by_time ON orchestrator_session (updated DESC);
CREATE INDEX orchestrator_session_by_label ON orchestrator_session (label);
CREATE INDEX orchestrator_session_unfinished ON orchestrator_session (updated) WHERE unfinished;

CREATE TABLE orchestrator_journal (
    key text COLLATE "C" NOT NULL,
    place integer NOT NULL,
    record text NOT NULL,         -- JSON in ASCII, so that any character can be kept
    sum bigint NOT NULL,          -- CRC-32 of the record, its key and its place
    PRIMARY KEY (key, place)
);

-- The worker processes that run turns. A process renews `until` while it lives, by this database's
-- clock; its turns are free when the time has passed.
CREATE TABLE orchestrator_process (
    name text COLLATE "C" PRIMARY KEY,
    until timestamptz NOT NULL
);
