"""A local guardrail: the members of Bedrock's CreateGuardrail.

The JSON of an existing guardrail works here. What needs a model of Amazon's (content filters,
contextual grounding, automated reasoning, names and addresses) is refused, not silently left
unguarded: `notEnforced` says that it may be left out.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from orchestrator.definition.fields import Document, Many, Part

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


# All entries say whether they count for the user's input, and for answers.
class _Directions(Part):
    input_enabled: bool = True
    output_enabled: bool = True


# `NONE` lets what was found pass.
class _BlockOnly(_Directions):
    input_action: BlockOnly = "BLOCK"
    output_action: BlockOnly = "BLOCK"

    def directions(self) -> dict[str, bool]:
        return {
            "input": self.input_enabled and self.input_action != "NONE",
            "output": self.output_enabled and self.output_action != "NONE",
        }


class GuardrailTopic(_BlockOnly):
    """A topic that is not talked about."""

    # Its name; where it stands in a text as a phrase, the topic is there
    name: Annotated[str, Field(min_length=1, max_length=100)]
    definition: Annotated[str, Field(max_length=1000)] = ""  # what it is about; for an embedder
    # Phrases that belong to it
    examples: Many[Annotated[str, Field(min_length=1, max_length=1000)]] = ()
    type: Literal["DENY"] = "DENY"


class GuardrailTopicPolicy(Part):
    """The denied topics."""

    topics_config: Many[GuardrailTopic] = ()
    tier_config: dict[str, Any] | None = None  # for Bedrock only


class GuardrailWord(_BlockOnly):
    """A word or phrase that is not allowed."""

    text: Annotated[str, Field(min_length=1, max_length=100)]


class GuardrailManagedWords(_BlockOnly):
    """A list of words that somebody keeps."""

    type: Literal["PROFANITY"]
    # One's own list, one word or phrase a line; Amazon's is not here. Ours
    words_file: str | None = None


class GuardrailWordPolicy(Part):
    """Words that are not allowed."""

    words_config: Many[GuardrailWord] = ()
    managed_word_lists_config: Many[GuardrailManagedWords] = ()  # lists that somebody keeps


# The action holds for both directions that have none of their own.
class _Sensitive(_Directions):
    action: Sensitive = "BLOCK"  # `ANONYMIZE` puts `{TYPE}` or a regex's `{name}` in its place
    input_action: Sensitive | None = None
    output_action: Sensitive | None = None

    def directions(self) -> dict[str, Any]:
        return {
            "input": (self.input_action or self.action) if self.input_enabled else "NONE",
            "output": (self.output_action or self.action) if self.output_enabled else "NONE",
        }


class GuardrailPii(_Sensitive):
    """A type of sensitive information."""

    type: PiiType


class GuardrailRegex(_Sensitive):
    """A regular expression."""

    name: Annotated[str, Field(min_length=1, max_length=100)]  # its name, which also is its mask
    description: str | None = None  # what it finds, for people
    pattern: Annotated[str, Field(min_length=1, max_length=500)]  # the expression, in RE2's syntax


class GuardrailSensitiveInformationPolicy(Part):
    """Sensitive information."""

    pii_entities_config: Many[GuardrailPii] = ()
    regexes_config: Many[GuardrailRegex] = ()


class GuardrailContentFilter(_BlockOnly):
    """A filter of Amazon's, which is not here."""

    type: Literal["SEXUAL", "VIOLENCE", "HATE", "INSULTS", "MISCONDUCT", "PROMPT_ATTACK"]
    input_strength: Strength  # `NONE` when it does nothing for the user's input
    output_strength: Strength  # `NONE` when it does nothing for answers
    input_modalities: Many[str] = ()  # for Bedrock only
    output_modalities: Many[str] = ()  # for Bedrock only

    @property
    def active(self) -> bool:
        """Whether it would filter anything."""
        asked = self.directions()
        return (asked["input"] and self.input_strength != "NONE") or (
            asked["output"] and self.output_strength != "NONE"
        )


class GuardrailContentPolicy(Part):
    """Amazon's content filters."""

    filters_config: Many[GuardrailContentFilter] = ()
    tier_config: dict[str, Any] | None = None  # for Bedrock only


NotEnforced = Literal[
    "contentPolicyConfig",
    "contextualGroundingPolicyConfig",
    "automatedReasoningPolicyConfig",
    "PROFANITY",
    "NAME",
    "ADDRESS",
]


class GuardrailDefinition(Document):
    """A guardrail: the members of Bedrock's CreateGuardrail, checked in this process."""

    name: Annotated[str, Field(min_length=1, max_length=50)]
    description: str | None = None  # what it is for, for people
    topic_policy_config: GuardrailTopicPolicy = GuardrailTopicPolicy()
    # Also finds topics by meaning: the cosine, from 0 to 1, from which on a sentence belongs to a
    # topic. Ours; needs an embedding model
    topic_similarity_threshold: Annotated[float, Field(gt=0, le=1)] | None = None
    word_policy_config: GuardrailWordPolicy = GuardrailWordPolicy()
    sensitive_information_policy_config: GuardrailSensitiveInformationPolicy = (
        GuardrailSensitiveInformationPolicy()
    )
    # Amazon's content filters, which are not here
    content_policy_config: GuardrailContentPolicy = GuardrailContentPolicy()
    # Amazon's check of grounding, which is not here
    contextual_grounding_policy_config: dict[str, Any] | None = None
    # Amazon's automated reasoning, which is not here
    automated_reasoning_policy_config: dict[str, Any] | None = None
    # Which of these may be left out, and whether `PROFANITY` without a list, `NAME` and `ADDRESS`
    # may be. Ours
    not_enforced: Many[NotEnforced] = ()
    blocked_input_messaging: Message  # what is answered to an input that is blocked
    blocked_outputs_messaging: Message  # what stands for an answer that is blocked
    cross_region_config: dict[str, Any] | None = None  # for Bedrock only
    kms_key_id: str | None = None  # for Bedrock only
    tags: Many[dict[str, str]] = ()  # for Bedrock only
    client_request_token: str | None = None  # for Bedrock only
