"""What AWS would answer of resources that do not exist yet: stand-ins of the right form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from orchestrator.transfer.unknown_values import make_placeholder_id

_REGION = "us-east-1"
_ACCOUNT = "000000000000"


class Attributes(Protocol):
    """What a resource sets."""

    def get(self, name: str, otherwise: Any = None) -> Any:
        """The value of an attribute."""


def guess_attribute(kind: str, address: str, own: Attributes) -> dict[str, str]:
    """The attributes of a resource that AWS sets, by their names; none for most types."""
    name = address.rpartition(".")[2]
    make = _ATTRIBUTES.get(kind)
    return make(address, name, own) if make else {}


def _arn(service: str, path: str) -> str:
    return f"arn:aws:{service}:{_REGION}:{_ACCOUNT}:{path}"


def _agent(address: str, name: str, own: Attributes) -> dict[str, str]:
    id = make_placeholder_id(address)
    arn = _arn("bedrock", f"agent/{id}")
    return {"agent_id": id, "id": id, "agent_arn": arn, "agent_version": "DRAFT"}


def _alias(address: str, name: str, own: Attributes) -> dict[str, str]:
    id, agent = make_placeholder_id(address), own.get("agent_id", "0000000000")
    arn = _arn("bedrock", f"agent-alias/{agent}/{id}")
    return {"agent_alias_id": id, "agent_alias_arn": arn, "id": id, "arn": arn}


def _knowledge_base(address: str, name: str, own: Attributes) -> dict[str, str]:
    id = make_placeholder_id(address)
    return {"id": id, "knowledge_base_id": id, "arn": _arn("bedrock", f"knowledge-base/{id}")}


def _guardrail(address: str, name: str, own: Attributes) -> dict[str, str]:
    id = make_placeholder_id(address).lower()
    arn = _arn("bedrock", f"guardrail/{id}")
    return {"guardrail_id": id, "guardrail_arn": arn, "version": "DRAFT", "id": id}


def _prompt(address: str, name: str, own: Attributes) -> dict[str, str]:
    id = make_placeholder_id(address)
    return {"id": id, "arn": _arn("bedrock", f"prompt/{id}"), "version": "DRAFT"}


def _function(address: str, name: str, own: Attributes) -> dict[str, str]:
    function = own.get("function_name") or name
    arn = _arn("lambda", f"function:{function}")
    return {"arn": arn, "qualified_arn": arn, "function_name": function, "version": "$LATEST"}


def _function_alias(address: str, name: str, own: Attributes) -> dict[str, str]:
    function = str(own.get("function_name") or name)
    arn = function if function.startswith("arn:") else _arn("lambda", f"function:{function}")
    return {"arn": f"{arn}:{own.get('name') or 'live'}"}


def _role(address: str, name: str, own: Attributes) -> dict[str, str]:
    role = own.get("name") or name
    return {"arn": f"arn:aws:iam::{_ACCOUNT}:role/{role}", "name": role, "id": role}


def _key(address: str, name: str, own: Attributes) -> dict[str, str]:
    return {"arn": _arn("kms", "key/00000000-0000-0000-0000-000000000000")}


def _bucket(address: str, name: str, own: Attributes) -> dict[str, str]:
    bucket = own.get("bucket") or name.replace("_", "-").lower()
    return {"id": bucket, "bucket": bucket, "arn": f"arn:aws:s3:::{bucket}"}


def _object(address: str, name: str, own: Attributes) -> dict[str, str]:
    return {"id": own.get("key") or ""}


_ATTRIBUTES: dict[str, Callable[[str, str, Attributes], dict[str, str]]] = {
    "aws_bedrockagent_agent": _agent,
    "awscc_bedrock_agent": _agent,
    "aws_bedrockagent_agent_alias": _alias,
    "awscc_bedrock_agent_alias": _alias,
    "aws_bedrockagent_knowledge_base": _knowledge_base,
    "awscc_bedrock_knowledge_base": _knowledge_base,
    "aws_bedrock_guardrail": _guardrail,
    "awscc_bedrock_guardrail": _guardrail,
    "aws_bedrock_guardrail_version": lambda *_: {"version": "1"},
    "awscc_bedrock_guardrail_version": lambda *_: {"version": "1"},
    "aws_bedrockagent_prompt": _prompt,
    "awscc_bedrock_prompt": _prompt,
    "aws_lambda_function": _function,
    "aws_lambda_alias": _function_alias,
    "aws_iam_role": _role,
    "aws_kms_key": _key,
    "aws_s3_bucket": _bucket,
    "aws_s3_object": _object,
    "aws_s3_bucket_object": _object,
}


def guess_data(kind: str, name: str, own: Callable[[str], str]) -> str | None:
    """What a `data` block would read; `None` when that is not to be guessed.

    `own` gives an attribute that the block sets.
    """
    match kind, name:
        case "aws_caller_identity", "account_id" | "id":
            return _ACCOUNT
        case "aws_region", "name" | "region" | "id":
            return own("name") or _REGION
        case "aws_partition", "partition" | "id":
            return "aws"
        case "aws_partition", "dns_suffix":
            return "amazonaws.com"
        case "aws_bedrock_foundation_model", "model_arn":
            return f"arn:aws:bedrock:{_REGION}::foundation-model/{own('model_id')}"
        case "aws_lambda_function", "arn" | "qualified_arn":
            return _arn("lambda", f"function:{own('function_name')}")
        case "aws_iam_role", "arn":
            return f"arn:aws:iam::{_ACCOUNT}:role/{own('name')}"
        case "archive_file", "output_base64sha256" | "output_md5" | "output_sha":
            return "0"
    return None
