"""Any agent that the API takes comes back from a server as it went there, file by file."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transfer_support import CLAUDE, FUNCTION, PARSER, SCHEMA, TEMPLATE, Place, place, texts

from orchestrator.actions.names import check_text
from orchestrator.errors import DefinitionError
from orchestrator.transfer import Document, files_of, read_folder, write_files

names = st.from_regex(r"\A([0-9a-zA-Z][_-]?){1,8}\Z")


def is_readable(text: str) -> bool:
    try:
        check_text(text, "it")
    except DefinitionError:
        return False
    return True


words = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P", "Z", "S")) | st.sampled_from("\n:#-'"),
    min_size=1,
    max_size=30,
).filter(is_readable)
texts_of_any_kind = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")) | st.sampled_from("\n\t\r$\"'{}"),
    max_size=30,
)
states = st.sampled_from(["ENABLED", "DISABLED"])


def some(needed: dict[str, Any], **more: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(needed, optional=more)


functions = some(
    {"name": names},
    description=words,
    requireConfirmation=states,
    parameters=st.dictionaries(
        names,
        some(
            {"type": st.sampled_from(["string", "number", "integer", "boolean", "array"])},
            description=words,
            required=st.booleans(),
        ),
        max_size=3,
    ),
)
schemas = st.one_of(
    st.sampled_from([{"customControl": "RETURN_CONTROL"}, {"lambda": FUNCTION}]).flatmap(
        lambda executor: st.fixed_dictionaries(
            {
                "actionGroupExecutor": st.just(executor),
                "functionSchema": st.fixed_dictionaries(
                    {
                        "functions": st.lists(
                            functions, min_size=1, max_size=3, unique_by=lambda it: it["name"]
                        )
                    }
                ),
            }
        )
    ),
    st.sampled_from([None, 1, 2]).map(
        lambda indent: {
            "actionGroupExecutor": {"lambda": FUNCTION},
            "apiSchema": {"payload": json.dumps(SCHEMA, indent=indent)},
        }
    ),
)
groups = st.tuples(
    some({"actionGroupName": names}, description=words, actionGroupState=states), schemas
)
inference = some(
    {},
    temperature=st.floats(0, 1, width=32),
    topP=st.floats(0, 1, width=32),
    topK=st.integers(0, 500),
    maximumLength=st.integers(0, 4096),
    stopSequences=st.lists(words, max_size=4),
)
prompts = some(
    {
        "promptType": st.sampled_from(["ORCHESTRATION"]),
        "basePromptTemplate": texts_of_any_kind.map(
            lambda text: TEMPLATE.replace("a sailor.", json.dumps(text)[1:-1].replace("$", "S"))
        ),
    },
    promptState=states,
    promptCreationMode=st.just("OVERRIDDEN"),
    inferenceConfiguration=inference,
    parserMode=st.sampled_from(["DEFAULT", "OVERRIDDEN"]),
)


def with_parser(stages: list[dict[str, Any]]) -> dict[str, Any]:
    parsed = any(it.get("parserMode") == "OVERRIDDEN" for it in stages)
    return {"promptConfigurations": stages, **({"overrideLambda": PARSER} if parsed else {})}


agents = some(
    {
        "agentName": names,
        "foundationModel": st.just(CLAUDE),
        "agentResourceRoleArn": st.just("arn:aws:iam::123456789012:role/agents"),
        "instruction": words.map(
            lambda text: f"You help people with all that they ask for: {text}"
        ),
    },
    description=words,
    idleSessionTTLInSeconds=st.integers(60, 3600),
    tags=st.dictionaries(
        st.from_regex(r"\A[a-zA-Z0-9_.:/=+@-]{1,10}\Z").filter(
            lambda it: not it.startswith("aws:")
        ),
        st.from_regex(r"\A[a-zA-Z0-9 _.:/=+@-]{0,10}\Z"),
        max_size=3,
    ),
    memoryConfiguration=some(
        {"enabledMemoryTypes": st.just(["SESSION_SUMMARY"])}, storageDays=st.integers(0, 365)
    ),
    knowledgeBases=st.lists(
        some(
            {"knowledgeBaseId": st.from_regex(r"\A[0-9A-Z]{10}\Z"), "description": words},
            knowledgeBaseState=states,
        ),
        max_size=2,
        unique_by=lambda base: base["knowledgeBaseId"],
    ),
    guardrailConfiguration=st.just({"guardrailIdentifier": "abc123", "guardrailVersion": "DRAFT"}),
    actionGroups=st.lists(
        groups, max_size=3, unique_by=lambda pair: pair[0]["actionGroupName"]
    ).map(lambda pairs: [{**one, **other} for one, other in pairs]),
    promptOverrideConfiguration=st.lists(prompts, max_size=1).map(with_parser),
)


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Place, Place]]:
    with place() as one, place() as other:
        yield one, other


@settings(max_examples=settings().max_examples // 5)  # each goes there and back through a server
@given(agents)
def test_it_comes_back_as_it_went(both: tuple[Place, Place], data: dict[str, Any]) -> None:
    here, elsewhere = both
    with tempfile.TemporaryDirectory() as folder:
        by_hand, first, second = (Path(folder) / name for name in ("0", "1", "2"))
        write_files(files_of(Document(data)), by_hand)
        pushed = here.push(read_folder(by_hand), create=True)
        write_files(here.pull(pushed.agent_id), first)

        assert here.push(read_folder(first)).steps == ()
        made = elsewhere.push(read_folder(first), create=True)
        write_files(elsewhere.pull(made.agent_id), second)
        expected = {k: v.replace(pushed.agent_id, made.agent_id) for k, v in texts(first).items()}
        assert texts(second) == expected
        assert texts(by_hand) == {
            k: v.replace(f"agentId: {pushed.agent_id}\n", "") for k, v in texts(first).items()
        }
    for where, id in ((here, pushed.agent_id), (elsewhere, made.agent_id)):
        where.client.delete_agent(agentId=id, skipResourceInUseCheck=True)
