"""`orchestrator batch`: many questions to one agent, resumable, one result a line."""
