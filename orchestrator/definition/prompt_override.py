"""`promptOverrideConfiguration`: the prompts of the stages."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from orchestrator.definition.fields import Many, Part, State, find_duplicate, mistake

CreationMode = Literal["DEFAULT", "OVERRIDDEN"]

# The prompt types of both of Bedrock's services together: real dumps mix them.
PromptType = Literal[
    "PRE_PROCESSING",
    "ORCHESTRATION",
    "KNOWLEDGE_BASE_RESPONSE_GENERATION",
    "POST_PROCESSING",
    "MEMORY_SUMMARIZATION",
    "ROUTING_CLASSIFIER",
]


# Languages of templates: Bedrock's own, and those of `orchestrator.prompts.languages`.
TemplateFormat = Literal["bedrock", "prompty", "semantic-kernel", "handlebars", "jinja2", "ppe"]


class InferenceConfiguration(Part):
    """How the model generates; a member that is left out takes the dialect's value.

    Attributes:
        temperature: Randomness, from 0 (always the likeliest token) to 1.
        top_p: Share of the probability mass that tokens are drawn from, from 0 to 1.
        top_k: Number of likeliest tokens that are drawn from, from 0 to 500.
        maximum_length: Most tokens of a reply.
        stop_sequences: Up to four texts that end a reply.
    """

    temperature: Annotated[float, Field(ge=0, le=1)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0, le=500)] | None = None
    maximum_length: Annotated[int, Field(ge=0)] | None = None
    stop_sequences: Annotated[Many[str], Field(max_length=4)] | None = None

    def as_dict(self) -> dict[str, Any]:
        """The members that were set, under Bedrock's names, as a model request takes them."""
        members = self.model_dump(by_alias=True, exclude_none=True)
        if self.stop_sequences is not None:
            members["stopSequences"] = list(self.stop_sequences)
        return members


class PromptConfiguration(Part):
    """The prompt of one stage; what is left out keeps the stage's default.

    Better than Bedrock, which wants the whole template repeated before it lets anything else be
    changed: `inferenceConfiguration` and `promptState` count in every creation mode. With
    `promptCreationMode: DEFAULT` only the template is left unused, with a warning.

    Attributes:
        prompt_type: The stage.
        prompt_creation_mode: `OVERRIDDEN` uses this template, `DEFAULT` the dialect's. Left out,
            a template that is there is used.
        prompt_state: `DISABLED` leaves the stage out.
        base_prompt_template: The template's text, with `$placeholders$`; up to 100,000 characters.
        base_prompt_template_file: The template as a file, relative to the agent's folder.
        template_format: The language that the template is written in; by default what the file's
            ending says, else Bedrock's own (ours, not Bedrock's).
        inference_configuration: How the model generates in this stage.
        parser_mode: `OVERRIDDEN` has `overrideLambda` parse the stage's replies.
        foundation_model: A model for this stage only.
        additional_model_request_fields: Further fields of the model's request, as its provider
            documents them.
    """

    prompt_type: PromptType
    prompt_creation_mode: CreationMode | None = None
    prompt_state: State | None = None
    base_prompt_template: Annotated[str, Field(min_length=1, max_length=100_000)] | None = None
    base_prompt_template_file: str | None = None
    template_format: TemplateFormat | None = None
    inference_configuration: InferenceConfiguration | None = None
    parser_mode: CreationMode | None = None
    foundation_model: Annotated[str, Field(min_length=1, max_length=2048)] | None = None
    additional_model_request_fields: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _check_template(self) -> PromptConfiguration:
        if self.base_prompt_template is not None and self.base_prompt_template_file is not None:
            raise mistake(
                "give either basePromptTemplate or basePromptTemplateFile, not both",
                "basePromptTemplateFile",
            )
        if self.template_format is not None and not self.has_template:
            raise mistake(
                "templateFormat is about a template, and there is none: give basePromptTemplate or "
                "basePromptTemplateFile",
                "templateFormat",
            )
        return self

    @property
    def has_template(self) -> bool:
        """Whether there is a template here, used or not."""
        return self.base_prompt_template is not None or self.base_prompt_template_file is not None

    @property
    def overridden(self) -> bool:
        """Whether the template here is the one to use."""
        # GetAgent gives every stage's template back with DEFAULT: such a dump must not freeze the
        # template.
        return self.has_template and self.prompt_creation_mode != "DEFAULT"


class PromptOverrideConfiguration(Part):
    """Changes to the prompts of the stages.

    Attributes:
        prompt_configurations: Up to ten, one for each stage.
        override_lambda: The parser that `parserMode: OVERRIDDEN` means: the ARN of a Lambda
            function, or a file in the agent's folder, `parser.py` or `parser.py:function`.
    """

    # AWS: at most ten prompt configurations.
    prompt_configurations: Annotated[Many[PromptConfiguration], Field(max_length=10)] = ()
    override_lambda: str | None = None

    @model_validator(mode="after")
    def _check_unique_stages(self) -> PromptOverrideConfiguration:
        if found := find_duplicate(prompt.prompt_type for prompt in self.prompt_configurations):
            index, name = found
            raise mistake(
                f"there is a second configuration of {name}; make them one",
                *("promptConfigurations", index, "promptType"),
            )
        return self
