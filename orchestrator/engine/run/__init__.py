"""An invocation: opens a turn, carries its effects out, and writes each outcome to the journal."""
