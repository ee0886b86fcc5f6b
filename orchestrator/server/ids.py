"""Ids, ARNs and times, in the forms that Bedrock gives them."""

from __future__ import annotations

import hashlib
import secrets
import string
from datetime import UTC, datetime
from typing import NamedTuple

from orchestrator.server.settings import Settings

DRAFT = "DRAFT"
"""The version that edits change."""

TEST_ALIAS = "TSTALIASID"
"""The alias of `DRAFT` (Bedrock)."""

_LETTERS = string.ascii_uppercase + string.digits


def new_id() -> str:
    """Ten upper-case letters and digits that nobody can guess."""
    return "".join(secrets.choice(_LETTERS) for _ in range(10))


def new_guardrail_id() -> str:
    """Twelve small letters and digits that nobody can guess."""
    return "".join(secrets.choice(_LETTERS.lower()) for _ in range(12))


def derive_id(*names: str) -> str:
    """Ten upper-case letters and digits that are the same for the same names."""
    return hashlib.sha256("\0".join(names).encode()).hexdigest()[:10].upper()


def now() -> datetime:
    """The time in UTC."""
    return datetime.now(UTC)


class Arns(NamedTuple):
    """The ARNs of a server's things."""

    region: str
    account: str

    @classmethod
    def of(cls, settings: Settings) -> Arns:
        """The ARNs that the settings ask for."""
        return cls(settings.region, settings.account)

    def _arn(self, rest: str) -> str:
        return f"arn:aws:bedrock:{self.region}:{self.account}:{rest}"

    def agent(self, agent_id: str) -> str:
        """The ARN of an agent."""
        return self._arn(f"agent/{agent_id}")

    def alias(self, agent_id: str, alias_id: str) -> str:
        """The ARN of an agent's alias."""
        return self._arn(f"agent-alias/{agent_id}/{alias_id}")

    def knowledge_base(self, knowledge_base_id: str) -> str:
        """The ARN of a knowledge base."""
        return self._arn(f"knowledge-base/{knowledge_base_id}")

    def prompt(self, prompt_id: str) -> str:
        """The ARN of a prompt, or of a version of it (`ID:VERSION`)."""
        return self._arn(f"prompt/{prompt_id}")

    def guardrail(self, guardrail_id: str) -> str:
        """The ARN of a guardrail."""
        return self._arn(f"guardrail/{guardrail_id}")

    def foundation_model(self, model_id: str) -> str:
        """The ARN of a foundation model, which no account owns."""
        return f"arn:aws:bedrock:{self.region}::foundation-model/{model_id}"

    def inference_profile(self, profile_id: str) -> str:
        """The ARN of an inference profile."""
        return self._arn(f"inference-profile/{profile_id}")

    def session(self, session_id: str) -> str:
        """The ARN of a session of the Sessions API."""
        return self._arn(f"session/{session_id}")

    def flow(self, flow_id: str) -> str:
        """The ARN of a flow."""
        return self._arn(f"flow/{flow_id}")

    def flow_alias(self, flow_id: str, alias_id: str) -> str:
        """The ARN of a flow's alias."""
        return self._arn(f"flow/{flow_id}/alias/{alias_id}")

    def flow_execution(self, flow_id: str, alias_id: str, execution_id: str) -> str:
        """The ARN of an execution of a flow."""
        return f"{self.flow_alias(flow_id, alias_id)}/execution/{execution_id}"

    def role(self) -> str:
        """The ARN that stands for the role of agents that have none."""
        return f"arn:aws:iam::{self.account}:role/AmazonBedrockExecutionRoleForAgents"
