"""A request that is turned away before anybody looks at what it asks for."""

from __future__ import annotations

__all__ = ["Refusal"]


class Refusal(Exception):
    """Why a request is turned away (AWS: "Common Error Types").

    Attributes:
        name: AWS's name of the error, such as `InvalidSignatureException`.
        status: The HTTP status.
        message: What is wrong and what to do about it; it quotes no secret and no payload.
    """

    def __init__(self, name: str, status: int, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.status = status
        self.message = message
