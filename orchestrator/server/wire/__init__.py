"""HTTP to `Request` and back, for every operation alike, as botocore's service models say.

- `shapes`, `values`: the service models; a value against its shape: checked, read and written.
- `requests`, `responses`: an operation's request; its response or event stream.
- `faults`: an error to an exception that the operation models.
- `api`: runs an operation, from the HTTP request to the HTTP response.
"""
