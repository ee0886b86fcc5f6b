"""Log records as JSON, one object a line, each with the request that it belongs to."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from orchestrator.server.request_context import RequestContext, current_request

REQUEST = "orchestrator_request"
"""The attribute of a record that is the line of a request; it holds its `RequestContext`."""


class JsonFormatter(logging.Formatter):
    """Writes a record as one line of ASCII: nothing in it can end the line, or the object."""

    def format(self, record: logging.LogRecord) -> str:
        """The line. A member without a value is left out."""
        members: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
        }
        own: RequestContext | None = getattr(record, REQUEST, None)
        request = own or current_request.get()
        if own is not None:
            members |= own.list_log_fields()
        else:
            members["message"] = record.getMessage()
        if request is not None:
            members |= request.list_id_fields()
        if record.exc_text:
            members["traceback"] = record.exc_text
        return json.dumps({name: it for name, it in members.items() if it is not None})
