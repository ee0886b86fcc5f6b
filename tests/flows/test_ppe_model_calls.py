"""How PPE scripts call models: tools and permissions, thinking, endings, and going on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flow_support import CLAUDE, as_stored, script, scripted, texts

from orchestrator import FlowError, load_flow
from orchestrator.flows.ppe.permissions import permissions_of
from orchestrator.models import Model
from orchestrator.models.base import ModelReply, ModelRequest, Usage


def use(name: str, id: str = "u1", **given: Any) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": id, "name": name, "input": given}}


def weather(city: str, day: str = "today") -> str:
    """The weather.

    Args:
        city: The city.
        day: The day.
    """
    return f"rain in {city} {day}"


def results(request: Any) -> list[tuple[str, str]]:
    """Texts and states of the results in a request's last message."""
    told = [block["toolResult"] for block in request.messages[-1]["content"]]
    return [(it["content"][0]["text"], it.get("status", "success")) for it in told]


# Tools


def test_the_model_calls_functions_by_itself() -> None:
    model = scripted([use("weather", city="Bonn")], "It rains.")
    head = ["---", "tools: [weather]", "---"]
    result = script(*head, "user: And in Bonn?").run(model=model, tools={"weather": weather})
    assert result.output == "It rains."
    (spec,) = model.requests[0].tools
    assert spec["toolSpec"]["name"] == "weather"
    assert "city" in spec["toolSpec"]["inputSchema"]["json"]["properties"]
    assert results(model.requests[1]) == [("rain in Bonn today", "success")]


def test_scripts_are_tools_with_their_inputs(tmp_path: Path) -> None:
    (tmp_path / "forecast.ai.yaml").write_text(
        "---\ntitle: The forecast\ninput:\n  - city: {required: true, description: Where}\n"
        "  - day: {default: today, enum: [today, tomorrow]}\n  - secret: {hidden: true}\n---\n"
        "$ret: \"?='sun in ' + city + ' ' + day\"\n"
    )
    main = tmp_path / "main.ai.yaml"
    main.write_text(
        "---\ntools: {forecast: {title: Tells, defaults: {day: tomorrow}}}\n---\nuser: q\n"
    )
    model = scripted([use("forecast", city="Bonn")], "Sunny.")
    assert load_flow(main).run(model=model).output == "Sunny."
    spec = model.requests[0].tools[0]["toolSpec"]
    assert spec["description"] == "Tells"
    assert spec["inputSchema"]["json"] == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where"},
            "day": {"type": "string", "enum": ["today", "tomorrow"]},
        },
        "required": ["city"],
    }
    assert results(model.requests[1]) == [("sun in Bonn tomorrow", "success")]


def test_a_script_of_tools_stands_for_those_that_it_exports(tmp_path: Path) -> None:
    (tmp_path / "one.ai.yaml").write_text("$ret: 1")
    (tmp_path / "all.ai.yaml").write_text("---\nexport: [one.ai.yaml, $weather]\n---\n")
    main = tmp_path / "main.ai.yaml"
    main.write_text("---\ntools: [all]\n---\nuser: q\n")
    model = scripted([use("one")], "end")
    load_flow(main).run(model=model, tools={"weather": weather})
    assert [it["toolSpec"]["name"] for it in model.requests[0].tools] == ["one", "weather"]
    assert results(model.requests[1]) == [("1", "success")]


def test_a_tool_that_is_not_there_is_told_before_anything_is_asked() -> None:
    with pytest.raises(FlowError, match=r"no script 'nope' beside this one.* and no function"):
        script("---", "tools: [nope]", "---", "user: q").run(model=scripted())


def test_the_model_is_told_of_a_tool_that_is_not_offered() -> None:
    model = scripted([use("other")], "end")
    head = ["---", "tools: [weather]", "---"]
    script(*head, "user: q").run(model=model, tools={"weather": weather})
    ((text, state),) = results(model.requests[1])
    assert "weather" in text and state == "error"


def test_calls_without_end_are_an_error() -> None:
    model = scripted(*([[use("weather", city="B")]] * 25))
    with pytest.raises(FlowError, match="called tools in 20 replies") as caught:
        script("---", "tools: [weather]", "---", "user: q").run(
            model=model, tools={"weather": weather}
        )
    assert "工具" in caught.value.message_zh


PERMISSIONS = [
    # rules, call, what holds
    (None, ("a", {}), "allow"),
    ({"call": []}, ("a", {}), "allow"),
    ({"call": ["!delete_*"]}, ("delete_all", {}), "deny"),
    ({"call": ["!delete_*"]}, ("read", {}), "allow"),
    ({"call": ["w*"]}, ("weather", {}), "allow"),
    ({"call": ["w*"]}, ("read", {}), "deny"),
    ({"call": ["w*", "!weather"]}, ("weather", {}), "deny"),
    ({"call": ["w*"], "defaultAction": "confirm"}, ("read", {}), "confirm"),
    ({"ai": {"call": ["w*"]}}, ("read", {}), "deny"),
    ({"ai": None, "call": ["w*"]}, ("read", {}), "deny"),
    ({"call": [{"read": {"action": "confirm"}}]}, ("read", {}), "confirm"),
    ({"call": [{"name": "read", "action": "deny"}]}, ("read", {}), "deny"),
]
FILES = {"call": [{"read": {"parameters": {"path": ["!/safe/secret*", "/safe/*"]}}}]}


@pytest.mark.parametrize(("rules", "call", "holds"), PERMISSIONS)
def test_permissions(rules: Any, call: tuple[str, Any], holds: str) -> None:
    assert permissions_of(rules).action(*call) == holds


@pytest.mark.parametrize(
    ("path", "holds"),
    [
        ("/safe/a", "allow"),
        ("/safe/b/c", "allow"),
        ("/safe/../etc/passwd", "deny"),
        ("/safe/./secrets", "deny"),
        ("/etc/passwd", "deny"),
        (None, "deny"),
    ],
)
def test_permissions_of_arguments(path: str | None, holds: str) -> None:
    rules = permissions_of(FILES)
    assert rules.action("read", {"path": path}) == holds
    assert rules.may_ever("read")


def test_what_is_not_permitted_is_not_called() -> None:
    called: list[str] = []
    tools = {name: (lambda name=name: called.append(name) or name) for name in ("wipe", "look")}
    model = scripted([use("wipe"), use("look", "u2")], "end")
    head = ["---", "tools: [wipe, look]", "permissions: {ai: {call: ['!wipe']}}", "---"]
    script(*head, "user: q").run(model=model, tools=tools)
    assert called == ["look"]
    assert [it["toolSpec"]["name"] for it in model.requests[0].tools] == ["look"]
    assert [state for _, state in results(model.requests[1])] == ["error", "success"]


@pytest.mark.parametrize(
    ("said", "state"), [("yes", "success"), ("好", "success"), ("no", "error")]
)
def test_the_user_is_asked_first(said: str, state: str) -> None:
    head = ["---", "tools: [weather]", "permissions: {call: [weather: {action: confirm}]}", "---"]
    flow = script(*head, "user: q")
    tools = {"weather": weather}
    waits = flow.run(model=scripted([use("weather", city="Bonn")]), tools=tools)
    assert waits.waits_for == "user"
    assert waits.question == 'May \'weather\' be called with {"city":"Bonn"}? (yes or no)'
    model = scripted("end")
    result = flow.resume(as_stored(waits.paused), model=model, tools=tools, text=said)
    assert result.output == "end"
    assert results(model.requests[0])[0][1] == state


# Thinking


@pytest.mark.parametrize(
    ("mode", "reply", "answer", "thoughts"),
    [
        ("first", "<think>hm</think>\n<answer>A</answer>", "A", "hm"),
        ("deep", "<think>hm</think> A", "A", "hm"),
        ("last", "<answer>A</answer><think>since</think>", "A", "since"),
        ("true", "just A", "just A", ""),
        ("first", "hm</think>A", "A", "hm"),
        ("first", "<think>hm", "", "hm"),
        ("last", "A</Answer><THINK>since</Think>", "A", "since"),
        ("{mode: first, thinkTag: T, answerTag: ['[[', ']]']}", "<T>hm</T>[[A]]", "A", "hm"),
    ],
)
def test_thoughts_are_cut_out(mode: str, reply: str, answer: str, thoughts: str) -> None:
    model = scripted(reply, "end")
    lines = [
        "---",
        f"shouldThink: {mode}",
        "---",
        "user: q",
        "assistant: '[[A]]'",
        "user: '{{A}}.'",
    ]
    result = script(*lines).run(model=model)
    assert result.variables["A"] == answer
    assert texts(model.requests[1])[-1] == f"{answer}."
    assert result.variables["THINKING"] == ""  # of the last reply
    assert "Then write your answer" in model.requests[0].system or mode in ("last", "true")
    kept = script(*lines[:5]).run(model=scripted(reply))
    assert kept.variables["THINKING"] == thoughts


def test_a_model_is_not_told_to_think_where_it_goes_on_or_chooses() -> None:
    model = scripted(
        "on", [{"toolUse": {"toolUseId": "1", "name": "choose", "input": {"choice": "a"}}}]
    )
    head = ["---", "shouldThink: deep", "---"]
    script(*head, "user: q", "assistant: 'So: [[A]]'").run(model=model)
    script(*head, "user: q", "assistant: '[[F:|a|b]]'").run(model=model)
    assert model.requests[0].system == ""
    assert "think" not in model.requests[1].system
    model = scripted("A")
    quiet = ["---", "shouldThink: {mode: deep, skipDefaultPrompt: true}", "---"]
    script(*quiet, "user: q").run(model=model)
    assert model.requests[0].system == ""


def test_thoughts_are_shown_while_they_stream_only_if_they_may_be() -> None:
    for visible, shown in (("true", ["<think>hm</think>A"]), ("false", [])):
        told: list[str] = []
        head = ["---", f"shouldThink: {{mode: first, visible: {visible}}}", "---"]
        script(*head, "user: q").run(
            model=scripted("<think>hm</think>A"),
            on_event=lambda it, told=told: (
                told.append(it.members["text"]) if it.type == "token" else None
            ),
        )
        assert told == shown


@pytest.mark.parametrize("off", ["llmStream: false", "parameters: {stream: false}"])
def test_replies_are_not_shown_while_they_stream(off: str) -> None:
    told: list[str] = []
    script("---", off, "---", "user: q").run(
        model=scripted("A"), on_event=lambda it: told.append(it.type)
    )
    assert "token" not in told


# Endings


@pytest.mark.parametrize(
    "head", ["completion_delimiter: END", "prompt: {completion_delimiter: END}"]
)
def test_a_delimiter_ends_a_reply(head: str) -> None:
    model = scripted("A END and more")
    result = script("---", head, "parameters: {stop: X}", "---", "user: q").run(model=model)
    assert result.output == "A "
    assert model.requests[0].inference["stopSequences"] == ["X", "END"]


class Cut(Model):
    """A model whose replies are cut off, all but the last."""

    def __init__(self, *replies: str) -> None:
        self.model_id = CLAUDE
        self.replies = list(replies)
        self.requests: list[ModelRequest] = []

    def complete(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        text = self.replies.pop(0)
        return ModelReply([{"text": text}], "max_tokens" if self.replies else "end_turn", Usage())


def test_a_reply_that_is_cut_off_goes_on() -> None:
    model = Cut("one ", " two", " three")
    result = script("user: q", "assistant: 'So: [[A]]'").run(model=model)
    assert result.output == "So: one two three"
    assert [texts(it)[-1] for it in model.requests] == ["So: ", "So: one ", "So: one two"]
    assert result.variables["A"] == "one two three"


def test_a_model_that_begins_again_is_not_repeated() -> None:
    assert (
        script("user: q").run(model=Cut("one two", "one two three", "")).output == "one two three"
    )
    model = Cut("one", "one", "never asked")
    assert script("user: q").run(model=model).output == "one"
    assert len(model.requests) == 2


@pytest.mark.parametrize(
    ("parameters", "calls"),
    [
        ("{continueOnLengthLimit: false}", 1),
        ("{maxRetry: 2}", 3),
        ("{maxRetry: 0}", 1),
        ("{response_format: {type: json}}", 1),
        ("{x: 1}", 8),
    ],
)
def test_how_often_it_goes_on(parameters: str, calls: int) -> None:
    model = Cut(*(str(number) for number in range(20)))
    script("---", f"parameters: {parameters}", "---", "user: q").run(model=model)
    assert len(model.requests) == calls


# Imports


def test_scripts_are_imported_under_other_names(tmp_path: Path) -> None:
    (tmp_path / "calculator.ai.yaml").write_text("$ret: '?=content + 1'")
    main = tmp_path / "main.ai.yaml"
    for imports in ("{calculator.ai.yaml: plus}", "['ai:calculator': plus]"):
        main.write_text(
            f"---\nimport: {imports}\n---\n$plus: 1\n-> plus -> $plus\n"
            "user: 'x [[@plus(1)]] [[@$plus(content=5)]]'\n"
        )
        model = scripted("A")
        load_flow(main).run(model=model)
        assert texts(model.requests[0]) == ["x 2 6"]


def test_a_script_is_called_by_its_own_id(tmp_path: Path) -> None:
    (tmp_path / "file_name.ai.yaml").write_text("---\n_id: adder\n---\n$ret: '?=content + 1'")
    main = tmp_path / "main.ai.yaml"
    main.write_text("$exec: {id: adder, args: {content: 4}}")
    assert load_flow(main).run(model=scripted()).output == 5


def test_lenient_scripts_go_without_biases_and_not_without_roles_or_tools() -> None:
    model = scripted("A")
    script("---", "lenient: true", "---", "user: 'a ((!joy:5))b [[@nope]]'").run(model=model)
    assert texts(model.requests[0]) == ["a b [[@nope]]"]
    assert "logit_bias" not in model.requests[0].additional
    for head in ("roles: {r: nope}", "tools: [nope]"):
        with pytest.raises(FlowError, match="'nope'"):
            script("---", "lenient: true", head, "---", "user: q").run(model=scripted())


def test_a_tool_that_is_exported_and_not_there(tmp_path: Path) -> None:
    (tmp_path / "all.ai.yaml").write_text("---\nexport: [gone.ai.yaml]\n---\n")
    main = tmp_path / "main.ai.yaml"
    main.write_text("---\ntools: [all]\n---\nuser: q\n")
    with pytest.raises(FlowError, match="no tool 'gone'") as caught:
        load_flow(main).run(model=scripted())
    assert "没有工具 'gone'" in caught.value.message_zh
