"""HTTP to `Request` and back, for every operation alike, as botocore's service models say.

- `models`: the service models, loaded once.
- `routes`: method and path to an operation.
- `problems`, `patterns`, `scalars`, `shapes`: a value and a shape: checked, read and written.
- `requests`, `answers`, `streams`, `frames`: an operation's request, answer and event stream.
- `faults`: an error to an exception that the operation models.
- `api`: all of it, carried out.
"""
