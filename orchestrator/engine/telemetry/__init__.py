"""OpenTelemetry: the spans and metrics of turns, another projection of what happens in a run."""
