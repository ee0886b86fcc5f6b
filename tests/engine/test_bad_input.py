"""Bad input: each a clear typed error, and the session goes on to work afterwards."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_turns import breaks, stopped
from whole_agents import (
    BOTH,
    EACH,
    NATIVE,
    XML,
    Calls,
    Family,
    agent,
    answer,
    live_parts,
    members,
    streamed,
)

from orchestrator import (
    ActionGroup,
    Agent,
    DefinitionError,
    DependencyFailed,
    LimitExceeded,
    Limits,
    ModelOutputError,
    OrchestratorError,
    SQLiteStore,
    TemplateError,
    ValidationError,
)
from orchestrator.errors import AccessDenied, ResourceNotFound
from orchestrator.models.base import ModelReply
from orchestrator.support.content_root import content_root
from orchestrator.testing import FakeKnowledgeBase, ScriptedModel

INSTRUCTION = "You help."


def goes_on(asked: Agent, session_id: str = "s-1") -> None:
    """The session takes another question, whose answer is next in the script."""
    assert asked.invoke("And now?", session_id).text == "Still here."


def last(script: list[Any]) -> list[Any]:
    return [*script, answer("Still here.")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An agent in a folder, which tests then break."""
    shutil.copytree(content_root() / "examples" / "hr", tmp_path / "hr")
    return tmp_path / "hr"


def load(folder: Path, **options: Any) -> Agent:
    return Agent.load(folder, model=NATIVE.model([answer("Still here.")]), **options)


def mend(folder: Path) -> None:
    shutil.copy(content_root() / "examples" / "hr" / "agent.yaml", folder / "agent.yaml")


def override(folder: Path, line: str) -> None:
    yaml = folder / "agent.yaml"
    yaml.write_text(
        yaml.read_text()
        + "\npromptOverrideConfiguration:\n  promptConfigurations:\n"
        + f"    - promptType: ORCHESTRATION\n      promptCreationMode: OVERRIDDEN\n      {line}\n"
    )


def test_a_missing_template_file(folder: Path) -> None:
    override(folder, "basePromptTemplateFile: templates/mine.json")
    with pytest.raises(DefinitionError, match=r"mine\.json") as caught:
        load(folder)
    assert caught.value.file is not None
    mend(folder)
    goes_on(load(folder))


def test_a_template_file_that_a_dialect_names_and_nobody_has(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "dialect.yaml").write_text(
        'patterns: ["mine*"]\nprotocol: xml\nparser: xml\n'
        "stages: {ORCHESTRATION: {template: gone.json, enabled: true}}\n"
    )
    with pytest.raises(TemplateError, match=r"no file 'gone\.json'; looked in"):
        Agent("a", INSTRUCTION, ScriptedModel([], "mine-1"), templates=tmp_path)


def test_broken_json_in_a_template_has_line_and_column(folder: Path) -> None:
    (folder / "templates").mkdir(exist_ok=True)
    (folder / "templates" / "mine.json").write_text(
        '{\n  "system": "You.",\n  "messages": [\n    {"role": "user" "content": "?"}\n  ]\n}'
    )
    override(folder, "basePromptTemplateFile: templates/mine.json")
    with pytest.raises(
        TemplateError, match="expected ',' or '}' after the value of 'role'"
    ) as caught:
        load(folder)
    assert (caught.value.line, caught.value.column) == (4, 21)
    assert str(caught.value.file).endswith("mine.json")
    assert "mine.json:4:21" in str(caught.value)
    mend(folder)
    goes_on(load(folder))


def test_broken_json_in_a_template_given_as_text() -> None:
    prompts = {"ORCHESTRATION": {"basePromptTemplate": '{"system": "x", }'}}
    with pytest.raises(TemplateError) as caught:
        agent(NATIVE.model([]), prompts=prompts)
    assert (caught.value.line, caught.value.column) == (1, 17)


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ("claude", "claude"),
        ("anthropc.claude-3-sonnet-20240229-v1:0", "did you mean 'anthropic.claude-3-sonnet"),
        ("gpt-4o", "did you mean 'openai:gpt-4o'"),
        ("", "''"),
        ("openai:", "second half"),
        ("scripted:no/such/file.jsonl", "no/such/file.jsonl"),
        ("replay:no/such/file.jsonl", "no/such/file.jsonl"),
    ],
)
def test_an_unknown_model(spec: str, wanted: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(wanted)):
        Agent("a", INSTRUCTION, spec)


def test_no_aws_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import os

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    model_id = "anthropic.claude-3-5-sonnet-20240620-v1:0"
    store = SQLiteStore(tmp_path / "sessions.db")
    asked = Agent("a", INSTRUCTION, model_id, sessions=store)
    with pytest.raises(AccessDenied, match="AWS_PROFILE") as caught:
        asked.invoke("Hi", "s-1")
    assert model_id in str(caught.value)
    assert "the model 'local'" in str(caught.value)
    assert caught.value.reply is not None
    events, error = streamed(asked, "Hi", "s-1")
    assert isinstance(error, AccessDenied)
    assert members(live_parts(events)) == members(error.reply.trace)
    # The same session, once there is a model.
    goes_on(Agent("a", INSTRUCTION, NATIVE.model([answer("Still here.")]), sessions=store))


@BOTH
def test_a_handler_that_raises(family: Family) -> None:
    script = last([family.calls(("accounts::breaks", {}))])
    asked = agent(family.model(script), [ActionGroup("accounts", [breaks])])
    with pytest.raises(DependencyFailed, match=r"'accounts::breaks' raised RuntimeError") as caught:
        asked.invoke("Break it", "s-1")
    assert caught.value.resource == "accounts::breaks"
    assert "payload" not in str(caught.value)
    goes_on(asked)


def test_a_lambda_handler_file_that_raises(folder: Path) -> None:
    handler = folder / "action_groups" / "vacations" / "handler.py"
    handler.write_text("def lambda_handler(event, context):\n    raise KeyError('a payload')\n")
    asked = load(folder)
    operation = asked.plan.catalog.operations[0]
    arguments = {
        one.name: {"integer": 1, "string": "2026-01-05"}.get(one.type, "x")
        for one in operation.parameters
    }
    call = NATIVE.calls((operation.xml_name, arguments))
    asked = Agent.load(folder, model=NATIVE.model(last([call])))
    with pytest.raises(DependencyFailed, match="KeyError") as caught:
        asked.invoke("How many?", "s-1", session_attributes={"employeeId": "E-1"})
    assert "handler.py:2" in str(caught.value)
    assert "payload" not in str(caught.value)
    goes_on(asked)


def test_a_schema_with_an_unknown_type(folder: Path) -> None:
    functions = [{"name": "f", "parameters": {"days": {"type": "strin", "description": "d"}}}]
    with pytest.raises(DefinitionError, match="'strin'") as caught:
        ActionGroup("g", functions=functions, executor=Echo())
    assert "'string'" in str(caught.value)
    yaml = folder / "agent.yaml"
    yaml.write_text(re.sub(r"type: (string|integer)", "type: strin", yaml.read_text(), count=1))
    with pytest.raises(DefinitionError, match="strin") as caught:
        load(folder)
    assert "agent.yaml" in str(caught.value)
    assert caught.value.line is not None
    mend(folder)
    goes_on(load(folder))


class Echo:
    def call(self, call: Any, context: Any) -> Any:
        raise AssertionError


@pytest.mark.parametrize("session_id", ["..", "...", "a:b", "CON", "-.", "x" * 100])
def test_odd_session_ids_are_valid_and_stay_in_the_store(session_id: str, tmp_path: Path) -> None:
    store = tmp_path / "state" / "sessions.db"
    store.parent.mkdir()
    asked = agent(NATIVE.model(last([answer("Hi.")])), sessions=store)
    asked.invoke("Hi", session_id)
    goes_on(asked, session_id)
    assert {path.name for path in tmp_path.iterdir()} == {"state"}
    assert all(path.name.startswith("sessions.db") for path in store.parent.iterdir())


@pytest.mark.parametrize(
    "session_id",
    [
        "",
        "a",
        "../x",
        "a/b",
        "a\\b",
        "a b",
        "ä-1",
        "x" * 101,
        "a\n",
        "a\0b",
        "\ud800\ud800",
        7,
        b"ab",
    ],
)
def test_invalid_session_ids(session_id: Any) -> None:
    model = NATIVE.model([answer("Still here.")])
    asked = agent(model)
    with pytest.raises(ValidationError, match=r"session_id .* is not valid") as caught:
        asked.invoke("Hi", session_id)
    assert len(str(caught.value)) < 400
    assert model.requests == []
    goes_on(asked)


@pytest.mark.parametrize("question", ["", " ", "\n\t "])
def test_an_empty_question(question: str) -> None:
    model = NATIVE.model([answer("Still here.")])
    asked = agent(model)
    with pytest.raises(ValidationError, match=r"the question is empty; .* or the results of"):
        asked.invoke(question, "s-1")
    assert model.requests == []
    goes_on(asked)


def test_a_question_of_thirty_megabytes() -> None:
    model = NATIVE.model([answer("Still here.")])
    asked = agent(model)
    with pytest.raises(ValidationError, match="30,000,000 characters; the limit is 25,000,000"):
        asked.invoke("x" * 30_000_000, "s-1")
    assert model.requests == []
    goes_on(asked)


@pytest.mark.parametrize(
    "options",
    [
        {"session_attributes": {"a": 1}},
        {"prompt_session_attributes": {"a": None}},
        {"session_attributes": ["a"]},
        {"prompt_session_attributes": "a"},
        {"results": {"invocationId": "x"}},
        {"results": {"invocationId": "x", "returnControlInvocationResults": [{}]}},
        {"results": "yes"},
        {"conversation_history": [{"role": "system", "content": []}]},
        {"conversation_history": [{"role": "user", "content": "text"}]},
        {"conversation_history": [{"role": "user", "content": [{"toolUse": {}}]}]},
        {"conversation_history": ["text"]},
        {"conversation_history": 5},
    ],
    ids=str,
)
def test_wrong_options(options: dict[str, Any]) -> None:
    model = NATIVE.model([answer("Still here.")])
    asked = agent(model)
    with pytest.raises(ValidationError):
        asked.invoke("Hi", "s-1", **options)
    assert model.requests == []
    goes_on(asked)


def test_an_unknown_option_is_named() -> None:
    asked = agent(NATIVE.model([answer("Still here.")]))
    with pytest.raises(TypeError, match="sesion_attributes"):
        asked.invoke("Hi", "s-1", sesion_attributes={})  # type: ignore[call-arg]
    goes_on(asked)


@EACH
def test_a_model_that_only_ever_asks_for_another_action(family: Family) -> None:
    calls = Calls()
    # Different arguments each time: some dialects do not repeat an identical call.
    script = [family.calls(("vacations::get_days", {"employee": f"E-{n}"})) for n in range(7)]
    asked = agent(family.model(last(script)), calls.groups(), limits=Limits(iterations=7))
    with pytest.raises(LimitExceeded, match=r"limit of 7 steps.*the limit 'iterations'") as caught:
        asked.invoke("How many?", "s-1")
    assert caught.value.limit == "iterations"
    assert len(calls.made) == 7
    goes_on(asked)
    # The model is told what was done, so that it is not done again.
    told = str(asked.plan.orchestration.model.requests[-1].messages)  # type: ignore[attr-defined]
    assert "E-6" in told
    assert "The turn failed" in told


def test_a_knowledge_base_that_raises_or_returns_no_references() -> None:
    search = NATIVE.calls(("GET::x_amz_knowledgebase_KB12345678::Search", {"searchQuery": "q"}))

    class Broken(FakeKnowledgeBase):
        answers: Callable[[], Any] = staticmethod(lambda: 1 / 0)

        def retrieve(self, query: str) -> Any:
            return self.answers()

    base = Broken("KB12345678", [])
    asked = agent(NATIVE.model(last([search] * 4)), knowledge_bases=[base])

    def find_late() -> Iterator[Any]:
        yield {"content": {"text": "x"}}
        raise RuntimeError("password")

    for answers in (lambda: 1 / 0, lambda: ["text"], lambda: None, find_late):
        base.answers = answers
        with pytest.raises(DependencyFailed, match="'KB12345678'") as caught:
            asked.invoke("When?", "s-1")
        assert caught.value.resource == "KB12345678" and "password" not in str(caught.value)
    goes_on(asked)


@pytest.mark.parametrize(
    "wrong",
    [
        {"content": "x"},
        {"content": {"text": 5}},
        {"content": {"type": "IMAGE"}},
        {"content": {"text": "x"}, "score": "high"},
        {"content": {"text": "x"}, "metadata": 5},
        {"content": {"text": "x"}, "location": "the shelf"},
    ],
    ids=str,
)
def test_references_of_another_shape_are_refused(wrong: Any) -> None:
    search = NATIVE.calls(("GET::x_amz_knowledgebase_KB12345678::Search", {"searchQuery": "q"}))

    class Wrong(FakeKnowledgeBase):
        def retrieve(self, query: str) -> Any:
            return [wrong]

    asked = agent(NATIVE.model(last([search])), knowledge_bases=[Wrong("KB12345678", [])])
    with pytest.raises(DependencyFailed, match="'KB12345678' returned something else than refer"):
        asked.invoke("When?", "s-1")
    goes_on(asked)


DEEP: Any = []
for _ in range(950):  # `json` would need as many calls, and tests may be collected in some already
    DEEP = [DEEP]


@pytest.mark.parametrize("odd", [float("nan"), date(2026, 1, 1), b"x", {1}, DEEP], ids=type)
def test_references_that_are_no_json_are_refused_wherever_sessions_are(odd: Any) -> None:
    search = NATIVE.calls(("GET::x_amz_knowledgebase_KB12345678::Search", {"searchQuery": "q"}))

    class Odd(FakeKnowledgeBase):
        def retrieve(self, query: str) -> Any:
            return [{"content": {"text": "Thirty days."}, "metadata": {"since": odd}}]

    asked = agent(NATIVE.model(last([search])), knowledge_bases=[Odd("KB12345678", [])])
    with pytest.raises(DependencyFailed, match=r"'KB12345678' returned .* all of it JSON"):
        asked.invoke("When?", "s-1")
    goes_on(asked)


GARBAGE = [
    "\x00\x01\x02\xff",
    "<",
    "</",
    "<answer" * 500,
    "<function_calls>" * 500,
    "<function_calls><invoke><tool_name>" * 200,
    "<thinking>" * 1000,
    "</answer></thinking></function_calls>",
    "<answer><answer><answer>",
    "<function_calls><invoke><!DOCTYPE x [<!ENTITY a 'b'>]>&a;",
    "]]>" * 100,
    "\ud800\udfff\ud800",
    "  ",
    "",
]


@EACH
@pytest.mark.parametrize("garbage", GARBAGE, ids=[ascii(one[:12]) for one in GARBAGE])
def test_a_model_that_streams_garbage(family: Family, garbage: str) -> None:
    survives(family, garbage)


def survives(family: Family, garbage: Any) -> None:
    """The turn answers or fails with a typed error; it carries nothing out; the session goes on."""
    calls = Calls()
    limits = Limits(reprompts=1, iterations=3)
    asked = agent(family.model([garbage] * 2, chunk=3), calls.groups(ask_user=True), limits=limits)
    events, error = streamed(asked, "How many?", "s-1")
    assert error is None or isinstance(error, OrchestratorError), error
    reply = error.reply if error else events[-1].reply
    assert members(live_parts(events)) == members(reply.trace)
    str(reply.as_dict()).encode()
    assert calls.made == []
    more = Agent(
        "hr",
        "You help employees with their vacations.",
        family.model([answer("Still here.")]),
        action_groups=calls.groups(ask_user=True),
        sessions=asked.sessions,
    )
    goes_on(more)


@given(st.binary(max_size=300), st.sampled_from([XML, NATIVE]))
def test_random_bytes_decoded(data: bytes, family: Family) -> None:
    survives(family, data.decode("utf-8", "surrogateescape"))


def test_a_megabyte_of_unclosed_tags_is_over_soon() -> None:
    noise = random.Random(7)
    tags = ["<thinking>", "<answer>", "<invoke>", "<function_calls>", "</answer", "<x", "text "]
    survives(XML, "".join(noise.choices(tags, k=120_000)))


WRONG_BLOCKS: list[Any] = [
    [{"text": None}],
    [{"text": 7}],
    [{}],
    [{"toolUse": None}],
    [{"toolUse": "vacations__get_days"}],
    [{"toolUse": {}}],
    [{"toolUse": {"toolUseId": 5, "name": ["x"], "input": {}}}],
    [{"toolUse": {"toolUseId": "t", "name": "vacations__get_days", "input": "not JSON"}}],
    [{"toolUse": {"toolUseId": "t", "name": "vacations__get_days", "input": [1]}}],
    [{"toolUse": {"toolUseId": "t", "name": "vacations__book", "input": {"days": {}}}}],
    [{"toolUse": {"toolUseId": None, "name": "vacations__get_days", "input": None}}],
    [{"toolUse": {"name": "user__askuser", "input": {"question": ["?"]}}}],
    [{"toolUse": {"toolUseId": "t", "name": "\ud800__f", "input": {"\ud800": "\ud800"}}}],
    [{"reasoningContent": None}],
    [{"reasoningContent": {"reasoningText": "text"}}],
    [{"image": {}}],
    ["text"],
    [None],
]


@EACH
@pytest.mark.parametrize("blocks", WRONG_BLOCKS, ids=ascii)
def test_wrong_types_in_blocks(family: Family, blocks: Any) -> None:
    survives(family, ModelReply(blocks, "end_turn"))


@pytest.mark.parametrize("reason", ["", "no_such_reason", None])
def test_an_unknown_stop_reason_is_taken_for_the_usual_one(reason: Any) -> None:
    asked = agent(NATIVE.model([stopped(reason, "<answer>Hi.")] * 2))
    reply = asked.invoke("Hi")
    assert (reply.text, reply.stop_reason) == ("Hi.", "end_turn")
    assert streamed(asked, "Hi")[1] is None


def test_a_model_that_fails_to_be_understood_leaves_its_words_in_the_error() -> None:
    asked = agent(XML.model(last(["<thinking>Hm."] * 3)), limits=Limits(reprompts=2))
    with pytest.raises(ModelOutputError, match=r"3 times in a row .*orchestrator parse") as caught:
        asked.invoke("Hi", "s-1")
    assert caught.value.raw == "<thinking>Hm."
    goes_on(asked)


def test_resource_not_found_is_a_validation_error() -> None:
    with pytest.raises(ResourceNotFound, match="no/such/folder"):
        Agent.load("no/such/folder")


@pytest.mark.parametrize("line", ["{", "5", '{"text": "x"}', '["x"]', '[{"text": 5}]', "[" * 9999])
def test_a_script_with_a_bad_line_names_it(line: str, tmp_path: Path) -> None:
    script = tmp_path / "replies.jsonl"
    script.write_text(f'"fine"\n\n{line}\n')
    with pytest.raises(ValidationError, match=r"line 3 of the script .*replies\.jsonl"):
        Agent("a", INSTRUCTION, f"scripted:{script}")
