"""Agents of Amazon Bedrock as collaborators, asked through `InvokeAgent` (AWS: agents runtime).

The agent answers in a session of its own, which is the same for all messages of one session here.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from functools import cache
from threading import Lock
from typing import Any

from orchestrator.errors import (
    AccessDenied,
    DefinitionError,
    DependencyFailed,
    ModelNotReady,
    OrchestratorError,
    ResourceNotFound,
    SessionConflict,
    ThrottlingError,
    ValidationError,
)
from orchestrator.remote import RemoteReply

__all__ = ["BedrockAgent"]

_ARN = re.compile(
    r"arn:aws[a-z-]*:bedrock:(?P<region>[a-z0-9-]{1,20}):\d{12}:agent-alias/"
    r"(?P<agent>[0-9A-Za-z]{10})/(?P<alias>[0-9A-Za-z]{10})"
)
_LARGEST = 25_000_000  # bytes of an answer
_READ_SECONDS = 300.0  # between two events: an agent may be silent while its actions run

# What of the environment decides whose client it is: a process that changes it gets another one.
_NAMES = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"),
    *("AWS_DEFAULT_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"),
    *("AWS_BEARER_TOKEN_BEDROCK", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_BEDROCK_AGENT_RUNTIME"),
)
_making = Lock()


class BedrockAgent:
    """An alias of an agent in Amazon Bedrock. Safe for many threads at once.

    Nothing is sent, and boto3 is not loaded, before the first message. boto3 finds the
    credentials, and the endpoint: `AWS_ENDPOINT_URL_BEDROCK_AGENT_RUNTIME` leads elsewhere.

    Attributes:
        alias_arn: The alias's ARN.
    """

    def __init__(
        self,
        alias_arn: str,
        *,
        region: str | None = None,
        client: Any = None,
        endpoint_url: str | None = None,
    ) -> None:
        """Names the agent.

        Args:
            alias_arn: The ARN of its alias.
            region: Another region than the ARN's.
            client: A bedrock-agent-runtime client of boto3 to use.
            endpoint_url: Another address of the service.

        Raises:
            DefinitionError: It is no ARN of an agent's alias.
        """
        found = _ARN.fullmatch(alias_arn) if isinstance(alias_arn, str) else None
        if found is None:
            raise DefinitionError(
                f"{alias_arn!r} is not the ARN of an agent's alias; one looks like "
                "'arn:aws:bedrock:eu-central-1:123456789012:agent-alias/ABCDEFGHIJ/TSTALIASID'"
            )
        self.alias_arn = alias_arn
        self._agent_id, self._alias_id = found["agent"], found["alias"]
        self._region = region or found["region"]
        self._client = client
        self._endpoint_url = endpoint_url

    def __repr__(self) -> str:
        return f"BedrockAgent({self.alias_arn!r})"

    def invoke(
        self,
        text: str,
        session_id: str,
        session_attributes: Mapping[str, str],
        prompt_session_attributes: Mapping[str, str],
    ) -> RemoteReply:
        """Has the agent answer `text`.

        A request is not sent again when it may have arrived: the agent may have acted.

        Raises:
            AccessDenied: There are no credentials, or they may not invoke the agent.
            ThrottlingError: The service refused more requests.
            ModelNotReady: The agent's model is still being made ready.
            DependencyFailed: The agent failed, could not be reached, or returned control, which
                only the one who invoked it could answer.
        """
        request = {
            "agentId": self._agent_id,
            "agentAliasId": self._alias_id,
            "sessionId": session_id,
            "inputText": text,
            "enableTrace": True,
            "sessionState": {
                "sessionAttributes": dict(session_attributes),
                "promptSessionAttributes": dict(prompt_session_attributes),
            },
        }
        try:
            client = self._client or self._connected()
            with closing(client.invoke_agent(**request)["completion"]) as events:
                return self._read(events)
        except OrchestratorError:
            raise
        except Exception as error:
            failure = self._failure(error)
            if failure is None:
                raise
            raise failure from None

    def _connected(self) -> Any:
        with _making:
            return _client(self._region, self._endpoint_url, tuple(map(os.environ.get, _NAMES)))

    @property
    def _what(self) -> str:
        return f"the agent {self._agent_id}/{self._alias_id} in {self._region}"

    def _read(self, events: Any) -> RemoteReply:
        pieces: list[bytes] = []
        citations: list[dict[str, Any]] = []
        trace: list[dict[str, Any]] = []
        for event in events:
            if "chunk" in event:
                pieces.append(event["chunk"].get("bytes", b""))
                if sum(map(len, pieces)) > _LARGEST:
                    raise self._failed(f"answered with more than {_LARGEST} bytes")
                citations += event["chunk"].get("attribution", {}).get("citations", [])
            elif "trace" in event:
                trace.append(_plain(event["trace"]))
            elif "returnControl" in event:
                raise self._failed(
                    "returned control, which an agent in Bedrock cannot do as a collaborator "
                    "here: give its action groups a Lambda function, or bring them to an agent of "
                    "this project"
                )
        if not pieces:
            raise self._failed("ended its answer without any text")
        return RemoteReply(b"".join(pieces).decode("utf-8", "replace"), _plain(citations), trace)

    def _failed(self, what: str) -> DependencyFailed:
        return DependencyFailed(f"{self._what} {what}", resource=self.alias_arn)

    def _failure(self, error: Exception) -> OrchestratorError | None:
        from botocore.eventstream import ParserError
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError
        from urllib3.exceptions import HTTPError

        if isinstance(error, ClientError):
            return self._refused(error)
        if isinstance(error, BotoCoreError) and _CREDENTIALS.search(type(error).__name__):
            return AccessDenied(
                f"no usable AWS credentials for {self._what} ({type(error).__name__}): {_SETUP}",
                resource=self.alias_arn,
            )
        broken = BotoCoreError | HTTPError | ParserError | ResponseParserError | OSError
        if isinstance(error, broken):
            return self._failed(
                f"could not be reached, or its answer broke off ({type(error).__name__}); what it "
                "did is not known, and it was not asked again"
            )
        return None

    def _refused(self, error: Any) -> OrchestratorError:
        # AWS's own words are kept where they say what to do; elsewhere they may hold what was
        # sent. In event streams the names of exceptions begin with a small letter.
        told = error.response.get("Error", {})
        code = str(told.get("Code") or "")
        code = code[:1].upper() + code[1:]
        request = error.response.get("ResponseMetadata", {}).get("RequestId")
        place = f"{code}, request {request}" if request else code
        error.args = (code,)
        kind, what = _KINDS.get(code, (DependencyFailed, "failed"))
        text = f"{self._what} {what} ({place})"
        if code in _TELLING:
            text = f"{text}: {str(told.get('Message') or '')[:400]}"
        if issubclass(kind, DependencyFailed):
            return kind(text, resource=self.alias_arn)
        return kind(text)


_CREDENTIALS = re.compile("Credential|Token|SSO|Login|Profile|NoRegion|Config")
_SETUP = (
    "set AWS_PROFILE (after `aws configure` or `aws sso login`) or AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY"
)
_SIGN_IN = (
    AccessDenied,
    f"refused the credentials, which are wrong or have expired; {_SETUP}",
)
_KINDS: Mapping[str, tuple[type[OrchestratorError], str]] = {
    "AccessDeniedException": (AccessDenied, "may not be invoked; allow bedrock:InvokeAgent"),
    "ConflictException": (SessionConflict, "is busy with another message of this session"),
    "ExpiredTokenException": _SIGN_IN,
    "InvalidSignatureException": _SIGN_IN,
    "ModelNotReadyException": (ModelNotReady, "waits for its model; try again in a minute"),
    "ResourceNotFoundException": (ResourceNotFound, "is not there; check the alias and region"),
    "ServiceQuotaExceededException": (ThrottlingError, "has no quota left"),
    "ThrottlingException": (ThrottlingError, "refused more requests for now"),
    "UnrecognizedClientException": _SIGN_IN,
    "ValidationException": (ValidationError, "refused the message"),
}
_TELLING = frozenset(
    ("AccessDeniedException", "DependencyFailedException", "ResourceNotFoundException")
)


def _plain(value: Any) -> Any:
    """What boto3 made of JSON, as JSON values again: times as the service writes them."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


@cache
def _client(region: str, endpoint_url: str | None, environment: tuple[str | None, ...]) -> Any:
    import boto3
    from botocore.config import Config

    client = boto3.Session().client(
        "bedrock-agent-runtime",
        region_name=region,
        endpoint_url=endpoint_url,
        config=Config(
            connect_timeout=10,
            read_timeout=_READ_SECONDS,
            retries={"mode": "standard", "total_max_attempts": 4},
            user_agent_extra="bedrock-orchestrator",
        ),
    )
    client.meta.events.register_first("needs-retry.bedrock-agent-runtime.InvokeAgent", _may_repeat)
    return client


def _may_repeat(response: Any = None, caught_exception: Any = None, **_: Any) -> bool | None:
    # False, as the first answer, ends the retries; None leaves them to botocore's own handler.
    # Only what certainly did not arrive, or was throttled, is sent again.
    from orchestrator.actions.aws import never_sent

    if caught_exception is not None:
        return None if never_sent(caught_exception) else False
    return None if response is None or response[0].status_code == 429 else False
