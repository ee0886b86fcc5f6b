-- What prompts were made of: snapshots of plans, so that a past turn is shown with the prompts of
-- then. They belong to no session, and stay when sessions are deleted.
CREATE TABLE orchestrator_plan (
    digest text COLLATE "C" PRIMARY KEY,
    snapshot text NOT NULL        -- JSON in ASCII, or what encryption makes of it
);
