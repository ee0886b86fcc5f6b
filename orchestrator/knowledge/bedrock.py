"""A knowledge base of Amazon Bedrock, searched with `Retrieve`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from orchestrator.errors import ValidationError
from orchestrator.knowledge.settings import (
    DEFAULT_RESULTS,
    check,
    check_query,
    merge_configurations,
)
from orchestrator.support.aws import Settings, Target, get_shared_client, translate_errors

_ID = re.compile(r"[0-9a-zA-Z]{10}")
_MOST_PAGES = 20


class References(list[dict[str, Any]]):
    """Retrieved references, and what a guardrail did to them."""

    # `INTERVENED` or `NONE`; `None` when no guardrail was asked
    guardrail_action: str | None = None


class BedrockKnowledgeBase:
    """A knowledge base of Amazon Bedrock. Safe for many threads.

    Attributes:
        id: The knowledge base id.
        description: For the model: what can be found there.
    """

    def __init__(
        self,
        id: str,
        description: str = "",
        *,
        retrieval_configuration: Mapping[str, Any] | None = None,
        guardrail_configuration: Mapping[str, Any] | None = None,
        client: Any = None,
        region: str | None = None,
        endpoint_url: str | None = None,
    ) -> None:
        """Names the knowledge base; nothing is asked before the first search.

        Args:
            id: Its id: ten letters and digits.
            description: For the model.
            retrieval_configuration: Bedrock's `retrievalConfiguration` for all searches; that of
                a call wins, member by member.
            guardrail_configuration: `guardrailId` and `guardrailVersion` of a guardrail that
                checks what was found.
            client: A boto3 client of `bedrock-agent-runtime`; by default one is made and shared.
            region: The AWS region; by default that of the environment or profile.
            endpoint_url: Where the service is, when it is not Amazon's.

        Raises:
            ValidationError: The id or the configuration is wrong.
        """
        if not _ID.fullmatch(id):
            raise ValidationError(
                f"{id!r} is no id of a Bedrock knowledge base, which has ten letters and digits; "
                "give a folder for a local one"
            )
        check(retrieval_configuration or {})
        self.id = id
        self.description = description
        self._configuration = retrieval_configuration
        self._guardrail = guardrail_configuration
        self._client = client
        self._settings = Settings("bedrock-agent-runtime", region, endpoint_url=endpoint_url)
        self._target = Target(
            f"the knowledge base {id!r}",
            id,
            "allow bedrock:Retrieve",
            "`aws bedrock-agent list-knowledge-bases` names those of this region",
            "a local knowledge base",
            region=region,
        )

    def retrieve(self, query: str, configuration: Mapping[str, Any] | None = None) -> References:
        """Bedrock's retrieved references for `query`, best first, at most `numberOfResults`.

        The members of `configuration`, Bedrock's `retrievalConfiguration`, win over the knowledge
        base's own. Further pages are asked for while there are fewer results.

        Raises:
            ValidationError: The query (at most 20,000 characters) or the configuration is wrong.
            ResourceNotFound: There is no such knowledge base in the region.
            DependencyFailed: The search failed (`AccessDenied`, `ThrottlingError`, ...).
        """
        settings = merge_configurations(self._configuration, configuration)
        request = {
            "knowledgeBaseId": self.id,
            "retrievalQuery": {"text": check_query(query)},
            **({"retrievalConfiguration": settings} if settings else {}),
            **({"guardrailConfiguration": dict(self._guardrail)} if self._guardrail else {}),
        }
        client = self._client or get_shared_client(self._settings, self._target)
        with translate_errors(self._target):
            return self._pages(client, request, _read_limit(settings))

    def _pages(self, client: Any, request: dict[str, Any], wanted: int) -> References:
        # A token that repeats would ask for ever.
        found = References()
        for _ in range(_MOST_PAGES):
            answer = client.retrieve(**request)
            found += answer.get("retrievalResults") or ()
            action = answer.get("guardrailAction")
            if action and found.guardrail_action != "INTERVENED":
                found.guardrail_action = action
            token = answer.get("nextToken")
            if not token or len(found) >= wanted or token == request.get("nextToken"):
                break
            request = {**request, "nextToken": token}
        del found[wanted:]
        return found


def _read_limit(settings: Mapping[str, Mapping[str, Any]]) -> int:
    """How many passages were asked for; what a reranker leaves of them comes in one page."""
    limits = [members.get("numberOfResults", DEFAULT_RESULTS) for members in settings.values()]
    return max(limits, default=DEFAULT_RESULTS)
