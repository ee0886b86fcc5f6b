-- What the server's API has made. `place` counts up: lists are in the order in which things were
-- made. Names are compared by their bytes.
CREATE TABLE orchestrator_document (
    place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    parent text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    name text COLLATE "C",
    body text NOT NULL                     -- JSON in ASCII after its CRC-32, or encrypted
);
CREATE UNIQUE INDEX orchestrator_document_id ON orchestrator_document (tenant, kind, parent, id);
CREATE UNIQUE INDEX orchestrator_document_name
    ON orchestrator_document (tenant, kind, parent, name) WHERE name IS NOT NULL;
CREATE INDEX orchestrator_document_list ON orchestrator_document (tenant, kind, parent, place);

-- The answers to requests that came with a client token, for a day.
CREATE TABLE orchestrator_answer (
    tenant text COLLATE "C" NOT NULL,
    operation text COLLATE "C" NOT NULL,
    token text COLLATE "C" NOT NULL,
    request text NOT NULL,                 -- a hash of it
    answer text NOT NULL,
    made double precision NOT NULL,        -- seconds since 1970
    PRIMARY KEY (tenant, operation, token)
);
CREATE INDEX orchestrator_answer_made ON orchestrator_answer (made);
