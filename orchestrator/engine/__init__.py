"""One turn of an agent: the loop and its steps, as a generator of effects, without any I/O.

`run/` carries a turn out and keeps its journal, `trace/` shows the journal to callers.
"""
