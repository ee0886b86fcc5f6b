"""A local guardrail: the members of Bedrock's CreateGuardrail.

The JSON of an existing guardrail works here. What needs a model of Amazon's (content filters,
contextual grounding, automated reasoning, names and addresses) is refused, not silently left
unguarded: `notEnforced` says that it may be left out.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr

from orchestrator.definition.fields import Many, Part
from orchestrator.support.documents import Source

BlockOnly = Literal["BLOCK", "NONE"]
Sensitive = Literal["BLOCK", "ANONYMIZE", "NONE"]
Strength = Literal["NONE", "LOW", "MEDIUM", "HIGH"]
PiiType = Literal[
    "ADDRESS", "AGE", "AWS_ACCESS_KEY", "AWS_SECRET_KEY", "CA_HEALTH_NUMBER",
    "CA_SOCIAL_INSURANCE_NUMBER", "CREDIT_DEBIT_CARD_CVV", "CREDIT_DEBIT_CARD_EXPIRY",
    "CREDIT_DEBIT_CARD_NUMBER", "DRIVER_ID", "EMAIL", "INTERNATIONAL_BANK_ACCOUNT_NUMBER",
    "IP_ADDRESS", "LICENSE_PLATE", "MAC_ADDRESS", "NAME", "PASSWORD", "PHONE", "PIN", "SWIFT_CODE",
    "UK_NATIONAL_HEALTH_SERVICE_NUMBER", "UK_NATIONAL_INSURANCE_NUMBER",
    "UK_UNIQUE_TAXPAYER_REFERENCE_NUMBER", "URL", "USERNAME", "US_BANK_ACCOUNT_NUMBER",
    "US_BANK_ROUTING_NUMBER", "US_INDIVIDUAL_TAX_IDENTIFICATION_NUMBER", "US_PASSPORT_NUMBER",
    "US_SOCIAL_SECURITY_NUMBER", "VEHICLE_IDENTIFICATION_NUMBER",
]  # fmt: skip
# AWS: blockedInputMessaging and blockedOutputsMessaging have 1 to 500 characters.
Message = Annotated[str, Field(min_length=1, max_length=500)]


# All entries say whether they count for input, and for output.
class _Directions(Part):
    input_enabled: bool = True
    output_enabled: bool = True

    def directions(self) -> dict[str, Any]:
        return {
            "input": self.input_enabled and getattr(self, "input_action", None) != "NONE",
            "output": self.output_enabled and getattr(self, "output_action", None) != "NONE",
        }


class GuardrailTopic(_Directions):
    """A topic that is not talked about.

    Attributes:
        name: Its name; where it stands in a text as a phrase, the topic is there.
        definition: What it is about; for an embedder.
        examples: Phrases that belong to it.
        type: `DENY`.
        input_action: `NONE` lets it pass in the user's input.
        output_action: `NONE` lets it pass in answers.
        input_enabled: False leaves the user's input alone.
        output_enabled: False leaves answers alone.
    """

    name: Annotated[str, Field(min_length=1, max_length=100)]
    definition: Annotated[str, Field(max_length=1000)] = ""
    examples: Many[Annotated[str, Field(min_length=1, max_length=1000)]] = ()
    type: Literal["DENY"] = "DENY"
    input_action: BlockOnly = "BLOCK"
    output_action: BlockOnly = "BLOCK"


class GuardrailTopicPolicy(Part):
    """The denied topics.

    Attributes:
        topics_config: The topics.
        tier_config: For Bedrock only.
    """

    topics_config: Many[GuardrailTopic] = ()
    tier_config: dict[str, Any] | None = None


class GuardrailWord(_Directions):
    """A word or phrase that is not allowed.

    Attributes:
        text: The word or phrase.
        input_action: `NONE` lets it pass in the user's input.
        output_action: `NONE` lets it pass in answers.
        input_enabled: False leaves the user's input alone.
        output_enabled: False leaves answers alone.
    """

    text: Annotated[str, Field(min_length=1, max_length=100)]
    input_action: BlockOnly = "BLOCK"
    output_action: BlockOnly = "BLOCK"


class GuardrailManagedWords(_Directions):
    """A list of words that somebody keeps.

    Attributes:
        type: `PROFANITY`.
        words_file: One's own list, one word or phrase a line; Amazon's is not here. Ours.
        input_action: `NONE` lets them pass in the user's input.
        output_action: `NONE` lets them pass in answers.
        input_enabled: False leaves the user's input alone.
        output_enabled: False leaves answers alone.
    """

    type: Literal["PROFANITY"]
    words_file: str | None = None
    input_action: BlockOnly = "BLOCK"
    output_action: BlockOnly = "BLOCK"


class GuardrailWordPolicy(Part):
    """Words that are not allowed.

    Attributes:
        words_config: The words.
        managed_word_lists_config: Lists that somebody keeps.
    """

    words_config: Many[GuardrailWord] = ()
    managed_word_lists_config: Many[GuardrailManagedWords] = ()


class _Sensitive(_Directions):
    action: Sensitive = "BLOCK"
    input_action: Sensitive | None = None
    output_action: Sensitive | None = None

    def directions(self) -> dict[str, Any]:
        return {
            "input": (self.input_action or self.action) if self.input_enabled else "NONE",
            "output": (self.output_action or self.action) if self.output_enabled else "NONE",
        }


class GuardrailPii(_Sensitive):
    """A type of sensitive information.

    Attributes:
        type: Its name.
        action: `BLOCK`, or `ANONYMIZE`, which puts `{TYPE}` in its place.
        input_action: What is done about it in the user's input instead.
        output_action: What is done about it in answers instead.
        input_enabled: False leaves the user's input alone.
        output_enabled: False leaves answers alone.
    """

    type: PiiType


class GuardrailRegex(_Sensitive):
    """A regular expression.

    Attributes:
        name: Its name, which also is its mask.
        description: What it finds, for people.
        pattern: The expression, in RE2's syntax.
        action: `BLOCK`, or `ANONYMIZE`, which puts `{name}` in its place.
        input_action: What is done about a match in the user's input instead.
        output_action: What is done about a match in answers instead.
        input_enabled: False leaves the user's input alone.
        output_enabled: False leaves answers alone.
    """

    name: Annotated[str, Field(min_length=1, max_length=100)]
    description: str | None = None
    pattern: Annotated[str, Field(min_length=1, max_length=500)]


class GuardrailSensitiveInformationPolicy(Part):
    """Sensitive information.

    Attributes:
        pii_entities_config: Its types.
        regexes_config: Regular expressions.
    """

    pii_entities_config: Many[GuardrailPii] = ()
    regexes_config: Many[GuardrailRegex] = ()


class GuardrailContentFilter(_Directions):
    """A filter of Amazon's, which is not here.

    Attributes:
        type: What it filters.
        input_strength: `NONE` when it does nothing for the user's input.
        output_strength: `NONE` when it does nothing for answers.
        input_action: What it does.
        output_action: What it does.
        input_modalities: For Bedrock only.
        output_modalities: For Bedrock only.
        input_enabled: False leaves the user's input alone.
        output_enabled: False leaves answers alone.
    """

    type: Literal["SEXUAL", "VIOLENCE", "HATE", "INSULTS", "MISCONDUCT", "PROMPT_ATTACK"]
    input_strength: Strength
    output_strength: Strength
    input_action: BlockOnly = "BLOCK"
    output_action: BlockOnly = "BLOCK"
    input_modalities: Many[str] = ()
    output_modalities: Many[str] = ()

    @property
    def active(self) -> bool:
        """Whether it would filter anything."""
        asked = self.directions()
        return (asked["input"] and self.input_strength != "NONE") or (
            asked["output"] and self.output_strength != "NONE"
        )


class GuardrailContentPolicy(Part):
    """Amazon's content filters.

    Attributes:
        filters_config: The filters.
        tier_config: For Bedrock only.
    """

    filters_config: Many[GuardrailContentFilter] = ()
    tier_config: dict[str, Any] | None = None


NotEnforced = Literal[
    "contentPolicyConfig",
    "contextualGroundingPolicyConfig",
    "automatedReasoningPolicyConfig",
    "PROFANITY",
    "NAME",
    "ADDRESS",
]


class GuardrailDefinition(Part):
    """A guardrail: the members of Bedrock's CreateGuardrail, checked in this process.

    Attributes:
        name: Its name.
        description: What it is for, for people.
        topic_policy_config: Denied topics.
        topic_similarity_threshold: Also finds topics by meaning: the cosine, from 0 to 1, from
            which on a sentence belongs to a topic. Ours; needs an embedding model.
        word_policy_config: Words that are not allowed.
        sensitive_information_policy_config: What is masked or blocked.
        content_policy_config: Amazon's content filters, which are not here.
        contextual_grounding_policy_config: Amazon's check of grounding, which is not here.
        automated_reasoning_policy_config: Amazon's automated reasoning, which is not here.
        not_enforced: Which of these may be left out, and whether `PROFANITY` without a list,
            `NAME` and `ADDRESS` may be. Ours.
        blocked_input_messaging: What is answered to an input that is blocked.
        blocked_outputs_messaging: What stands for an answer that is blocked.
        cross_region_config: For Bedrock only.
        kms_key_id: For Bedrock only.
        tags: For Bedrock only.
        client_request_token: For Bedrock only.
    """

    name: Annotated[str, Field(min_length=1, max_length=50)]
    description: str | None = None
    topic_policy_config: GuardrailTopicPolicy = GuardrailTopicPolicy()
    topic_similarity_threshold: Annotated[float, Field(gt=0, le=1)] | None = None
    word_policy_config: GuardrailWordPolicy = GuardrailWordPolicy()
    sensitive_information_policy_config: GuardrailSensitiveInformationPolicy = (
        GuardrailSensitiveInformationPolicy()
    )
    content_policy_config: GuardrailContentPolicy = GuardrailContentPolicy()
    contextual_grounding_policy_config: dict[str, Any] | None = None
    automated_reasoning_policy_config: dict[str, Any] | None = None
    not_enforced: Many[NotEnforced] = ()
    blocked_input_messaging: Message
    blocked_outputs_messaging: Message
    cross_region_config: dict[str, Any] | None = None
    kms_key_id: str | None = None
    tags: Many[dict[str, str]] = ()
    client_request_token: str | None = None

    _source: Source = PrivateAttr(default_factory=Source)

    @property
    def source(self) -> Source:
        """Where the definition was read from."""
        return self._source
