"""The HTTP door: Amazon Bedrock's own API on one port, and two more that chat clients speak.

Here lives what turns HTTP into calls of the engine, and nothing that an agent does. The rooms, and
what each knows nothing of:

- `operations.py`, `settings.py`: what rooms say to each other, and what a server is told.
- `wire/`: bytes to `Request` and back, driven by botocore's service models; no operation's meaning.
- `access/`: who is calling (signatures, tenants) and what is let in at all; no operation.
- `control/`: the operations of `bedrock-agent`, and agents in folders; no HTTP.
- `control/bases/`: its knowledge bases, data sources and ingestion; no HTTP.
- `runtime/`: the operations of `bedrock-agent-runtime`, with the Sessions API; no HTTP.
- `inference/`: the operations of `bedrock-runtime`, and which model answers for an id; no HTTP.
- `chat/`, `agentcore.py`: OpenAI's chat completions and AgentCore's contract; they share `rest.py`,
  `named.py`, `members.py` and `presence.py`.
- `documents.py`: what the API has made, in one SQLite file, each tenant's apart; no meaning.
- `world.py`: everything that a worker process has open, and the operations of all rooms.
- `door.py`: limits, `access` and the log around every request; `running.py`: what is being
  answered, so that a process ends in time.
- `app.py`, `serving.py`, `protocol.py`: all of it put together, and run.
"""
