"""The HTTP server: Bedrock's API, OpenAI's chat completions and AG-UI on one port.

Here lives what turns HTTP into calls of the engine, and nothing that an agent does:

- `app.py`, `serving.py`: the application put together, and run; `middleware.py` and
  `active_requests.py`: limits and the log around every request, and what is being answered.
- `access/`: who is calling (signatures, tenants), and what is let in at all.
- `wire/`: bytes to `Request` and back, driven by botocore's service models.
- `control/`: the operations of `bedrock-agent`; `runtime/`: those of `bedrock-agent-runtime`, with
  the Sessions API; `inference/`: those of `bedrock-runtime`. None of them knows HTTP.
- `agents/`, `knowledge_bases/`, `guardrails/`, `prompt_management/`: what these operations work on;
  the last three have the operations on it, too.
- `chat/`, `agentcore.py`: OpenAI's chat completions and AgentCore's contract; they share `rest.py`.
- `operations.py`, `settings.py`, `document_store.py`, `stored_tags.py`, `buckets.py`, `lambdas.py`,
  `ids.py`, `path_redaction.py`: what all of them use.
- `state.py`: what a worker process has open; it hands each part to those who need it.
"""
