"""The HTTP door: Amazon Bedrock's own API on one port, and two more that chat clients speak.

Here lives what turns HTTP into calls of the engine, and nothing that an agent does. The rooms, and
what each knows nothing of:

- `wire/`: bytes to `Request` and back, driven by botocore's service models; no operation's meaning.
- `access/`: who is calling (signatures, tenants) and how much at once; no operation.
- `control/`: the operations of `bedrock-agent`; no HTTP.
- `runtime/`: the operations of `bedrock-agent-runtime`; no HTTP.
- `inference/`: the operations of `bedrock-runtime`; no HTTP.
- `app.py`, `serving.py`: all of it put together, and run.
"""
