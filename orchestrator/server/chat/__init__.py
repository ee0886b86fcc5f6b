"""Agents as models of OpenAI's chat completions, for chat clients of every kind.

- `conversation`: from a request's messages to one turn of an agent.
- `handover`: returned control as tool calls, and their results back.
- `answers`: a turn as a completion, whole and in chunks.
- `errors`: errors in OpenAI's shape.
- `handlers`: the routes.
"""

from __future__ import annotations

from orchestrator.server.chat.handlers import routes_of

__all__ = ["routes_of"]
