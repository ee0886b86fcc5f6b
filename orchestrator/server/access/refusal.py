"""A request that is turned away before anybody looks at what it asks for."""

from __future__ import annotations

import json

_CREDENTIALS = (
    "AccessDeniedException",
    "IncompleteSignatureException",
    "InvalidSignatureException",
    "MissingAuthenticationTokenException",
    "UnrecognizedClientException",
)


class Refusal(Exception):
    """Why a request is turned away (AWS: "Common Error Types").

    Attributes:
        name: AWS's name of the error, such as `InvalidSignatureException`.
        status: The HTTP status.
        message: What is wrong and what to do about it; it quotes no secret and no payload.
        closes: Whether what else comes over its connection is not believed, either.
    """

    def __init__(self, name: str, status: int, message: str, *, closes: bool = False) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.status = status
        self.message = message
        self.closes = closes

    def to_response(self, path: bytes) -> tuple[int, bytes]:
        """The HTTP status and the JSON body, in the words of the API that a path belongs to."""
        if not path.startswith(b"/v1/"):
            return self.status, json.dumps({"message": self.message}).encode()
        # (OpenAI: "Error codes"; its clients take a 401 alone for an error of authentication.)
        status = 401 if self.name in _CREDENTIALS else self.status
        error = {"message": self.message, "type": "invalid_request_error", "code": self.name}
        return status, json.dumps({"error": {**error, "param": None}}).encode()
