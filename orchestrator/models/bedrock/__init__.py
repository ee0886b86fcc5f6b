"""Models of Amazon Bedrock: `BedrockModel`, and the short way of its requests.

`model` makes requests of conversations, `client` connects, `direct` sends without boto3, and
`learn` finds out what boto3 would send.
"""

from __future__ import annotations

from orchestrator.models.bedrock.model import BedrockModel, build_model

__all__ = ["BedrockModel", "build_model"]
