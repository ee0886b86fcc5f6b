-- When a process has last kept a snapshot: one that is in use is not deleted, though no session
-- names it at the moment.
ALTER TABLE orchestrator_plan ADD COLUMN kept timestamptz NOT NULL DEFAULT now();
