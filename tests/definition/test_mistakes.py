"""Every message has the place and the way out, and one error has all mistakes."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator.definition import definition_of, parse_definition
from orchestrator.definition.guardrail_file import guardrail_of
from orchestrator.errors import DefinitionError


def message_of(text: str, file: str = "agent.yaml") -> str:
    with pytest.raises(DefinitionError) as caught:
        parse_definition(text, file=file)
    return str(caught.value)


HEAD = "agentName: a\n"
PROMPT = (
    HEAD + "promptOverrideConfiguration:\n"
    "  promptConfigurations:\n"
    "    - promptType: ORCHESTRATION\n"
    "      "
)
WAY = "promptOverrideConfiguration.promptConfigurations[0]"
GROUP = HEAD + "actionGroups:\n  - actionGroupName: g\n    "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "agent.yaml:1:1: the file is empty; write at least 'agentName: …'"),
        ("# only a comment\n", "agent.yaml:1:1: the file is empty; write at least 'agentName: …'"),
        (
            "- a\n",
            "agent.yaml:1:1: the file must hold a mapping, such as 'agentName: claims'",
        ),
        ("description: x\n", "agent.yaml:1:1: 'agentName' is missing; add it"),
        (
            HEAD + "instructon: x\n",
            "agent.yaml:2:1: 'instructon' is not a member of an agent; did you mean 'instruction'?",
        ),
        (
            HEAD + "AgentCollaboration: DISABLED\n",
            "agent.yaml:2:1: 'AgentCollaboration' is not a member of an agent; "
            "did you mean 'agentCollaboration'?",
        ),
        (
            HEAD + "model: local\n",
            "agent.yaml:2:1: 'model' is not a member of an agent; did you mean 'foundationModel'?",
        ),
        (
            HEAD + "name: b\n",
            "agent.yaml:2:1: 'name' is not a member of an agent; did you mean 'agentName'?",
        ),
        (
            HEAD + "guardrailConfiguration: rules/guardrail.yaml\n",
            "agent.yaml:2:25: guardrailConfiguration must be a mapping, not "
            "'rules/guardrail.yaml'; write {file: rules/guardrail.yaml}",
        ),
        (
            HEAD + "guardrailConfiguration: strict\n",
            "agent.yaml:2:25: guardrailConfiguration must be a mapping, not 'strict'",
        ),
        (
            HEAD + "top_k: 3\n",
            "agent.yaml:2:1: 'top_k' is not a member of an agent; "
            "'topK' belongs into 'inferenceConfiguration'",
        ),
        (
            HEAD + "colour:\n",
            "agent.yaml:2:1: 'colour' is not a member of an agent; remove it",
        ),
        (
            HEAD + "guardrailConfiguration: {xyz: 1}\n",
            "agent.yaml:2:26: 'xyz' is not a member of guardrailConfiguration; "
            "its members are guardrailIdentifier, guardrailVersion, file, checkResults",
        ),
        (
            "agent_name: b\n" + HEAD,
            "agent.yaml:1:1: 'agent_name' and 'agentName' are the same member; remove one",
        ),
        (
            HEAD + HEAD,
            "agent.yaml:2:1: 'agentName' is given twice, first in line 1; remove one",
        ),
        (
            "agentName: my first agent!\n",
            "agent.yaml:1:12: agentName must be 1 to 100 letters and digits, with at most one _ or "
            "- after each, not 'my first agent!'; for example 'my_first_agent'",
        ),
        (
            HEAD + "description: 007\n",
            'agent.yaml:2:14: description must be a text, not 007; put it in quotes: "007"',
        ),
        (
            HEAD + "description: true\n",
            'agent.yaml:2:14: description must be a text, not true; put it in quotes: "true"',
        ),
        (
            HEAD + "guardrailConfiguration: {guardrailVersion: 1}\n",
            "agent.yaml:2:44: guardrailConfiguration.guardrailVersion must be a text, not 1; "
            'put it in quotes: "1"',
        ),
        (
            HEAD + "guardrailConfiguration: {guardrailVersion: v1}\n",
            "agent.yaml:2:44: guardrailConfiguration.guardrailVersion must be a number of up to 8 "
            "digits, or DRAFT, not 'v1'",
        ),
        (
            HEAD + "idleSessionTTLInSeconds: 30\n",
            "agent.yaml:2:26: idleSessionTTLInSeconds must be at least 60, not 30",
        ),
        (
            HEAD + 'idleSessionTTLInSeconds: "60"\n',
            "agent.yaml:2:26: idleSessionTTLInSeconds must be a whole number, not '60'; "
            "leave the quotes out",
        ),
        (
            HEAD + "limits: {seconds: 0}\n",
            "agent.yaml:2:19: limits.seconds must be greater than 0, not 0",
        ),
        (
            HEAD + "limits: {iterations: }\n",
            "agent.yaml:2:22: limits.iterations must be a whole number, not empty; "
            "give it a value or leave it out",
        ),
        (
            HEAD + "actionGroups: claims\n",
            "agent.yaml:2:15: actionGroups must be a list, not 'claims'",
        ),
        (HEAD + "limits: [1]\n", "agent.yaml:2:9: limits must be a mapping, not a list"),
        (
            PROMPT + "promptState: on\n",
            f"agent.yaml:5:20: {WAY}.promptState may not be 'on'; it is one of ENABLED, DISABLED",
        ),
        (
            PROMPT + "promptState: enabled\n",
            f"agent.yaml:5:20: {WAY}.promptState may not be 'enabled'; did you mean 'ENABLED'?",
        ),
        (
            PROMPT + "inferenceConfiguration: {temperature: 1.5}\n",
            f"agent.yaml:5:45: {WAY}.inferenceConfiguration.temperature must be at most 1, not 1.5",
        ),
        (
            PROMPT + "inferenceConfiguration: {stopSequences: [a, b, c, d, e]}\n",
            f"agent.yaml:5:47: {WAY}.inferenceConfiguration.stopSequences may have at most 4 items,"
            " not 5",
        ),
        (
            PROMPT + "basePromptTemplate: ''\n",
            f"agent.yaml:5:27: {WAY}.basePromptTemplate may not be empty, not ''",
        ),
        (
            PROMPT + "basePromptTemplate: " + "x" * 100_001,
            f"agent.yaml:5:27: {WAY}.basePromptTemplate may have at most 100,000 characters",
        ),
        (
            PROMPT + "basePromptTemplate: x\n      basePromptTemplateFile: y\n",
            f"agent.yaml:6:31: {WAY}.basePromptTemplateFile: give either basePromptTemplate or "
            "basePromptTemplateFile, not both",
        ),
        (
            PROMPT + "promptState: ENABLED\n    - promptType: ORCHESTRATION\n",
            "agent.yaml:6:19: promptOverrideConfiguration.promptConfigurations[1].promptType: "
            "there is a second configuration of ORCHESTRATION; make them one",
        ),
        (
            HEAD + "memoryConfiguration: {enabledMemoryTypes: []}\n",
            "agent.yaml:2:43: memoryConfiguration.enabledMemoryTypes: there is no type; "
            "write SESSION_SUMMARY",
        ),
        (
            GROUP + "actionGroupExecutor: {lambda: a.py, python: b.py}\n",
            "agent.yaml:4:26: actionGroups[0].actionGroupExecutor: give exactly one of lambda, "
            "customControl, python, http or mcp, not 2 of them",
        ),
        (
            GROUP + "actionGroupExecutor: {}\n",
            "agent.yaml:4:26: actionGroups[0].actionGroupExecutor: give exactly one of lambda, "
            "customControl, python, http or mcp",
        ),
        (
            GROUP + "actionGroupExecutor: {customControl: YES_PLEASE}\n",
            "agent.yaml:4:42: actionGroups[0].actionGroupExecutor.customControl may not be "
            "'YES_PLEASE'; write 'RETURN_CONTROL'",
        ),
        (
            GROUP + "apiSchema: {payload: x}\n    functionSchema: {functions: [{name: f}]}\n",
            "agent.yaml:5:21: actionGroups[0].functionSchema: give either apiSchema or "
            "functionSchema, not both",
        ),
        (
            GROUP + "apiSchema: {payload: x}\n    actionGroupExecutor: {python: a.py}\n",
            "agent.yaml:4:16: actionGroups[0].apiSchema: a python file brings its own functions; "
            "leave apiSchema out",
        ),
        (
            GROUP + "parentActionGroupSignature: AMAZON.UserInput\n    apiSchema: {payload: x}\n",
            "agent.yaml:5:16: actionGroups[0].apiSchema: AMAZON.UserInput is built in; "
            "leave apiSchema out",
        ),
        (
            GROUP + "functionSchema: {functions: []}\n",
            "agent.yaml:4:33: actionGroups[0].functionSchema.functions: there is no function; "
            "add one",
        ),
        (
            GROUP + "functionSchema: {functions: [{name: f}, {name: f}]}\n",
            "agent.yaml:4:52: actionGroups[0].functionSchema.functions[1].name: there is a second "
            "function 'f'; rename one of them",
        ),
        (
            GROUP + "functionSchema: {functions: [{name: f, parameters: {a b: {type: string}}}]}\n",
            "agent.yaml:4:57: actionGroups[0].functionSchema.functions[0].parameters.a b must be "
            "1 to 100 letters and digits, with at most one _ or - after each, not 'a b'; "
            "for example 'a_b'",
        ),
        (
            GROUP + "functionSchema: {functions: [{name: f, parameters: {a: {type: string, "
            "required: yes}}}]}\n",
            "agent.yaml:4:85: actionGroups[0].functionSchema.functions[0].parameters.a.required "
            "must be true or false, not 'yes'; write true",
        ),
        (
            GROUP + 'description: "pay \\u200B me"\n',
            "agent.yaml:4:18: actionGroups[0].description: it holds an invisible character, U+200B "
            "(ZERO WIDTH SPACE), at position 4; remove it: a model would read what a reviewer "
            "cannot see",
        ),
        (
            GROUP + "description: x\n  - actionGroupName: g\n",
            "agent.yaml:5:22: actionGroups[1].actionGroupName: there is a second action group 'g'; "
            "rename one",
        ),
        (
            GROUP + "environment: {B-C: x}\n",
            "agent.yaml:4:19: actionGroups[0].environment.B-C must be letters, digits and _, with "
            "no digit first",
        ),
        (
            GROUP + "environment: {PIN: 1234}\n",
            "agent.yaml:4:24: actionGroups[0].environment.PIN must be a text; put it in quotes",
        ),
    ],
)
def test_one_mistake(text: str, message: str) -> None:
    assert message_of(text) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "agentName: a\n\tdescription: b\n",
            "agent.yaml:2:1: a tab stands where YAML wants spaces; indent with spaces",
        ),
        (
            "agentName: a: b\n",
            "agent.yaml:1:13: this colon begins a second value; put the text in quotes, "
            'as in "a: b"',
        ),
        (
            "agentName: a\n  description: b\n",
            "agent.yaml:2:14: by its indentation this line goes on with the text before it; "
            "indent it as the members that it belongs to",
        ),
        (
            "tags:\n  b: x\n c: y\n",
            "agent.yaml:3:2: this line is indented otherwise than those that it belongs to",
        ),
        (
            "tags:\n  - b\n - c\n",
            "agent.yaml:3:2: this line is indented otherwise than those that it belongs to",
        ),
        (
            'agentName: "a" b\n',
            "agent.yaml:1:16: there is more text after this value; put all of it in one pair of "
            "quotes",
        ),
        (
            'agentName: "a\ninstruction: b\n',
            "agent.yaml:1:12: the quotes that begin here are not closed",
        ),
        (
            "agentName: @a\n",
            "agent.yaml:1:12: a value that begins with this character has to stand in quotes",
        ),
        (
            "agentName: a\n---\nagentName: b\n",
            "agent.yaml:2:1: there is a second document; a file holds one",
        ),
        (
            "agentName: a\ndescription\ninstruction: x\n",
            "agent.yaml:2:1: a colon is missing after this member's name",
        ),
        (
            "agentName: !!python/name:os.system x\n",
            "agent.yaml:1:12: the tag '!!python/name:os.system' is not supported; leave it out",
        ),
        (
            "agentName: !Ref Name\n",
            "agent.yaml:1:12: the tag '!Ref' is not supported; leave it out",
        ),
        ("agentName: !!int x\n", "agent.yaml:1:12: 'x' is no int"),
        ("1: x\n", 'agent.yaml:1:1: a member\'s name must be a text; write "1"'),
        ("? [a]\n: x\n", "agent.yaml:1:3: a member's name must be a text"),
        ("agentName: a\x07\n", "agent.yaml:1:13: the character U+0007 may not stand in YAML"),
        ("agentName: \"\\ud800\"\n", "agent.yaml:1:12: the text holds half of a surrogate pair"),
        (
            "tags: {<<: {a: b}}\n",
            "agent.yaml:1:8: merge keys (<<) are not supported; write them out",
        ),
        ("limits: {seconds: 1e999}\n", "agent.yaml:1:19: this number is too large"),
        (f"limits: {{tokens: {'9' * 5000}}}\n", "agent.yaml:1:18: this number is too large"),
    ],
)  # fmt: skip
def test_broken_yaml(text: str, message: str) -> None:
    assert message_of(text) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "agent.json:1:1: this is not JSON: Expecting value"),
        ('{\n  "agentName" "a"\n}', "agent.json:2:15: this is not JSON: a ':' is missing here"),
        ('{\n  "a": "b"\n  "c": 1}', "agent.json:3:3: this is not JSON: a ',' is missing here"),
        (
            "{'a': 1}",
            "agent.json:1:2: this is not JSON: a member's name in double quotes is missing",
        ),
        ('{"a": 1} x', "agent.json:1:10: this is not JSON: there is more text after the document"),
        ('{"a": "b\n"}', "agent.json:1:9: this is not JSON: Invalid control character at"),
        ('{"a": NaN}', "agent.json:1:7: this is not JSON: NaN is no number"),
        ('{"a": 1e999}', "agent.json:1:7: this number is too large"),
        ('{"a": ' + "9" * 5000 + "}", "agent.json:1:7: this number is too large"),
        ('{"a": "\\udc00"}', "agent.json:1:7: the text holds half of a surrogate pair"),
        (
            '{"agentName": "a",\n "agentName": "b"}',
            "agent.json:2:2: 'agentName' is given twice, first in line 1; remove one",
        ),
        (
            '{\n"agentName": 7}',
            'agent.json:2:14: agentName must be a text, not 7; put it in quotes: "7"',
        ),
    ],
)  # fmt: skip
def test_broken_json(text: str, message: str) -> None:
    assert message_of(text, "agent.json") == message


def test_one_error_has_several_mistakes_in_their_order() -> None:
    text = "agentName: a\ninstructon: x\nlimits: {iterations: 0}\ntags: {a: 1}\n"
    with pytest.raises(DefinitionError) as caught:
        parse_definition(text, file="claims/agent.yaml")
    error = caught.value
    assert str(error).splitlines() == [
        "claims/agent.yaml:2:1: 'instructon' is not a member of an agent; "
        "did you mean 'instruction'?",
        "claims/agent.yaml:3:22: limits.iterations must be at least 1, not 0",
        "claims/agent.yaml:4:11: tags.a must be a text; put it in quotes",
    ]
    assert (error.file, error.line, error.column) == ("claims/agent.yaml", 2, 1)
    assert [(it.code, it.line) for it in error.diagnostics] == [
        ("extra-forbidden", 2),
        ("greater-than-equal", 3),
        ("string-type", 4),
    ]


def test_a_message_tells_twenty_mistakes_and_counts_the_others() -> None:
    lines = message_of(HEAD + "".join(f"x{number}: 1\n" for number in range(30))).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "and 10 more"


def test_what_bedrock_sets_does_not_hide_mistakes() -> None:
    assert message_of("agentStatus: PREPARED\nagentName: a\nfoo: 1\n") == (
        "agent.yaml:3:1: 'foo' is not a member of an agent; remove it"
    )


def test_mistakes_in_plain_data_have_a_way_instead_of_a_place() -> None:
    with pytest.raises(DefinitionError) as caught:
        definition_of({"agentName": "a", "actionGroups": [{"actionGroupName": "g", "x": 1}]})
    assert str(caught.value) == "'x' is not a member of actionGroups[0]; remove it"
    assert caught.value.file is None
    with pytest.raises(DefinitionError) as caught:
        definition_of({"x": 1})
    assert str(caught.value).splitlines() == [
        "'agentName' is missing; add it",
        "'x' is not a member of an agent; remove it",
    ]


HALF = "a\ud800"
GUARDRAIL = {"name": "g", "blockedInputMessaging": "No.", "blockedOutputsMessaging": "No."}


def build_deep(levels: int) -> Any:
    value: Any = "a"
    for _ in range(levels):
        value = [value]
    return value


def build_cycle() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["a"] = value
    return value


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"instruction": HALF * 40}, "instruction holds half of a surrogate pair"),
        ({"agentName": HALF}, "agentName holds half of a surrogate pair"),
        ({"tags": {HALF: "a"}}, "tags holds half of a surrogate pair"),
        ({HALF: "a"}, "the document holds half of a surrogate pair"),
        (
            {"actionGroups": ({"actionGroupName": "g", "apiSchema": {"payload": HALF}},)},
            "actionGroups[0].apiSchema.payload holds half of a surrogate pair",
        ),
        ({"tags": build_deep(50)}, f"tags{'[0]' * 50} is nested deeper than 50 levels"),
        ({"a" * 9999: build_deep(9999)}, f"{'a' * 200} is nested deeper than 50 levels"),
        ({"tags": build_cycle()}, f"tags{'.a' * 50} is nested deeper than 50 levels"),
        (
            {"x": [{"y": ["a"] * 1000}] * 100},
            "x[99].y[698] comes after more than 100,000 values",
        ),
    ],
    ids=lambda it: it if isinstance(it, str) else "",
)
def test_plain_data_has_the_bounds_of_a_file(members: dict[str, Any], message: str) -> None:
    for read, rest in ((definition_of, {"agentName": "a"}), (guardrail_of, GUARDRAIL)):
        with pytest.raises(DefinitionError) as caught:
            read({**members, **{name: it for name, it in rest.items() if name not in members}})
        assert str(caught.value) == message


def test_secrets_are_not_repeated() -> None:
    message = message_of(GROUP + "environment: {PASSWORD: [hunter2], 'hunter-3': x}\n")
    assert "hunter2" not in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: " * 1 + "[" * 5000, "1:54: this is nested deeper than 50 levels"),
        ("[" * 60 + "]" * 60, "nested deeper than 50 levels"),
        ("a: &a [*a]\n", "1:8: the alias *a is inside of its own value"),
        (
            "a: &a [x, x, x, x, x, x, x, x, x]\n"
            + "".join(
                f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
                for before, name in zip("abcdefgh", "bcdefghi", strict=True)
            ),
            "comes to more than 100,000 values",
        ),
    ],
)
def test_small_files_cannot_become_large(text: str, message: str) -> None:
    assert message in message_of(text)


def test_deep_json_is_refused() -> None:
    assert "nested deeper than 50 levels" in message_of("[" * 100_000, "agent.json")


@given(
    st.text(st.sampled_from("ab: -\n\t{}[],\"'&*!|>#?%@<~01.\\u\x85\x00é")),
    st.sampled_from(["agent.yaml", "agent.json"]),
)
@example("a: b\u2028c: d\u2028e: f: g", "agent.yaml")
def test_no_text_breaks_the_reader(text: str, file: str) -> None:
    for given_text in (text, HEAD + text, '{"agentName": "a", ' + text):
        try:
            parse_definition(given_text, file=file)
        except DefinitionError as error:
            assert error.line and error.column and error.file == file
