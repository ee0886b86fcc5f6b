"""Agents of Amazon Bedrock as collaborators, asked through `InvokeAgent` (AWS: agents runtime).

The agent answers in a session of its own, which is the same for all messages of one session here.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from orchestrator.engine.plan import RemoteReply
from orchestrator.errors import (
    ActionOutcomeUnknown,
    DefinitionError,
    DependencyFailed,
    OrchestratorError,
    SessionConflict,
)
from orchestrator.support.aws import (
    Settings,
    Target,
    code_of,
    failure,
    get_shared_client,
    is_unanswered,
)
from orchestrator.support.aws.clients import ALIAS_ARN
from orchestrator.support.aws.invocations import disable_unsafe_retries, restore_json

_LARGEST = 25_000_000  # bytes of an answer, and of its files
_READ_SECONDS = 300.0  # between two events: an agent may be silent while its actions run
# With these codes AWS's words say what to do; with others they may hold what was sent.
_QUOTED = frozenset(
    ("AccessDeniedException", "DependencyFailedException", "ResourceNotFoundException")
)


class BedrockAgent:
    """An alias of an agent in Amazon Bedrock. Safe for many threads at once.

    Nothing is sent, and boto3 is not loaded, before the first message. boto3 finds the
    credentials, and the endpoint: `AWS_ENDPOINT_URL_BEDROCK_AGENT_RUNTIME` names another.

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
        found = ALIAS_ARN.fullmatch(alias_arn) if isinstance(alias_arn, str) else None
        if found is None:
            raise DefinitionError(
                f"{alias_arn!r} is not the ARN of an agent's alias; one looks like "
                "'arn:aws:bedrock:eu-central-1:123456789012:agent-alias/ABCDEFGHIJ/TSTALIASID'"
            )
        self.alias_arn = alias_arn
        self._agent_id, self._alias_id = found["agent"], found["alias"]
        self._region = region or found["region"]
        self._client = client
        self._settings = Settings(
            "bedrock-agent-runtime",
            self._region,
            endpoint_url=endpoint_url,
            read_timeout=_READ_SECONDS,
        )
        self._target = Target(
            f"the agent {self._agent_id}/{self._alias_id} in {self._region}",
            alias_arn,
            f"allow bedrock:InvokeAgent on {alias_arn}",
            "check the alias, the account and the region",
            quoted=_QUOTED,
            region=self._region,
        )

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

        A request is not sent again when it may have arrived: the agent may have acted, and
        InvokeAgent has no token by which Bedrock would know the request again.

        Raises:
            ActionOutcomeUnknown: It was asked, and its answer did not arrive, or not as a whole.
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
        client = self._client or get_shared_client(
            self._settings, self._target, disable_unsafe_retries
        )
        try:
            with closing(client.invoke_agent(**request)["completion"]) as events:
                return self._read(events)
        except OrchestratorError:
            raise
        except Exception as error:
            failed = failure(error, self._target)
            if failed is None:
                raise
            if is_unanswered(error):
                failed = ActionOutcomeUnknown(
                    f"{self._target.what} was asked, and its answer did not arrive as a whole "
                    f"({type(error).__name__}); it may have acted, and was not asked again",
                    resource=self.alias_arn,
                )
            elif code_of(error) == "ConflictException":
                failed = SessionConflict(
                    f"{self._target.what} is busy with another message of this session "
                    "(ConflictException)"
                )
            raise failed from None

    def _read(self, events: Any) -> RemoteReply:
        pieces: list[bytes] = []
        citations: list[dict[str, Any]] = []
        trace: list[dict[str, Any]] = []
        files: list[dict[str, Any]] = []
        for event in events:
            if "chunk" in event:
                pieces.append(event["chunk"].get("bytes", b""))
                self._check_size(pieces)
                citations += event["chunk"].get("attribution", {}).get("citations", [])
            elif "trace" in event:
                trace.append(restore_json(event["trace"]))
            elif "files" in event:
                files += event["files"].get("files", [])
                self._check_size([file.get("bytes", b"") for file in files])
            elif "returnControl" in event:
                raise self._build_failure(
                    "returned control, which an agent in Bedrock cannot do as a collaborator "
                    "here: give its action groups a Lambda function, or bring them to an agent of "
                    "this project"
                )
        if not pieces:
            raise self._build_failure("ended its answer without any text")
        text = b"".join(pieces).decode("utf-8", "replace")
        return RemoteReply(text, restore_json(citations), trace, files)

    def _check_size(self, parts: list[bytes]) -> None:
        # Nothing else bounds what an agent of another account sends.
        if sum(map(len, parts)) > _LARGEST:
            raise self._build_failure(f"answered with more than {_LARGEST} bytes")

    def _build_failure(self, what: str) -> DependencyFailed:
        return DependencyFailed(f"{self._target.what} {what}", resource=self.alias_arn)
