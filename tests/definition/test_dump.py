"""A definition that is written reads back equal, and is pleasant to read."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.actions.names import check_text
from orchestrator.definition import AgentDefinition, dump_definition, parse_definition
from orchestrator.errors import DefinitionError

texts = st.text(
    st.one_of(
        st.characters(codec="utf-8", exclude_categories=("Cc", "Cf", "Cs")),
        st.sampled_from("\n\n\t :#-'\"{}[]|>&*!%@`0123456789.eEtruefalsn~<\\\x85\u2028\u2029\r"),
    )
)


def is_readable(text: str) -> bool:
    try:
        return bool(check_text(text, "it")) or True
    except DefinitionError:
        return False


names = st.from_regex(r"\A([0-9a-zA-Z][_-]?){1,8}\Z")
states = st.sampled_from(["ENABLED", "DISABLED"])
model_texts = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P", "Z", "S")) | st.just("\n")
).filter(is_readable)
json_values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False)
    )
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def some(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=members)


inference = some(
    temperature=st.floats(0, 1),
    topP=st.floats(0, 1),
    topK=st.integers(0, 500),
    maximumLength=st.integers(0),
    stopSequences=st.lists(texts, max_size=4),
)
prompts = st.fixed_dictionaries(
    {"promptType": st.sampled_from(["ORCHESTRATION", "PRE_PROCESSING", "POST_PROCESSING"])},
    optional={
        "promptState": states,
        "promptCreationMode": st.sampled_from(["DEFAULT", "OVERRIDDEN"]),
        "basePromptTemplate": texts.filter(bool),
        "inferenceConfiguration": inference,
        "additionalModelRequestFields": st.dictionaries(texts, json_values, max_size=3),
    },
)
functions = st.fixed_dictionaries(
    {"name": names},
    optional={
        "description": model_texts,
        "requireConfirmation": states,
        "parameters": st.dictionaries(
            names,
            st.fixed_dictionaries(
                {"type": st.sampled_from(["string", "integer", "array"])},
                optional={"description": model_texts, "required": st.booleans()},
            ),
            max_size=3,
        ),
    },
)
groups = st.fixed_dictionaries(
    {"actionGroupName": names},
    optional={
        "description": model_texts,
        "actionGroupState": states,
        "environment": st.dictionaries(st.from_regex(r"\A[A-Z_][A-Z0-9_]{0,5}\Z"), texts),
        "functionSchema": st.fixed_dictionaries(
            {
                "functions": st.lists(
                    functions, min_size=1, max_size=3, unique_by=lambda it: it["name"]
                )
            }
        ),
    },
)
definitions = st.fixed_dictionaries(
    {"agentName": names},
    optional={
        "description": texts,
        "instruction": texts,
        "foundationModel": texts.filter(bool),
        "idleSessionTTLInSeconds": st.integers(60, 5400),
        "tags": st.dictionaries(texts, texts, max_size=3),
        "limits": some(
            iterations=st.integers(1), seconds=st.none() | st.floats(0.1, 1e6), actions=st.just(0)
        ),
        "promptOverrideConfiguration": st.fixed_dictionaries(
            {
                "promptConfigurations": st.lists(
                    prompts, max_size=3, unique_by=lambda it: it["promptType"]
                )
            }
        ),
        "actionGroups": st.lists(
            groups, max_size=3, unique_by=lambda group: group["actionGroupName"]
        ),
    },
)


@given(definitions)
def test_what_is_written_reads_back_equal(members: dict[str, Any]) -> None:
    definition = AgentDefinition.model_validate(members)
    text = dump_definition(definition)
    again = parse_definition(text)
    assert again == definition
    assert dump_definition(again) == text


def test_text_is_written_as_blocks_in_bedrocks_spelling() -> None:
    definition = parse_definition(
        """
        agent_name: claims
        instruction: "You help.\\n\\nBe brief. \\n"
        action_groups:
          - action_group_name: claims
            action_group_executor: {lambda: handler.py}
            environment: {LEVEL: "1e3", STRICT: "no", DAY: "2026-01-31"}
        limits: {seconds: null}
        """
    )
    assert dump_definition(definition) == (
        "agentName: claims\n"
        "instruction: |\n"
        "  You help.\n"
        "\n"
        "  Be brief. \n"
        "actionGroups:\n"
        "  - actionGroupName: claims\n"
        "    actionGroupExecutor:\n"
        "      lambda: handler.py\n"
        "    environment:\n"
        "      LEVEL: '1e3'\n"
        "      STRICT: 'no'\n"
        "      DAY: '2026-01-31'\n"
        "limits:\n"
        "  seconds: null\n"
    )


def test_defaults_that_were_not_set_are_not_written() -> None:
    assert dump_definition(AgentDefinition(agentName="a")) == "agentName: a\n"
