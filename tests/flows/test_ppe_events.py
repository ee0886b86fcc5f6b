"""Events of PPE scripts: who is told what, what listeners change, and that none is told twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flow_support import as_stored, handed_over, script, scripted, texts

from orchestrator import FlowError, load_flow


class Heard:
    """A listener that keeps what it is told."""

    def __init__(self, back: Any = None) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.back = back

    def __call__(self, event: Any, *args: Any) -> Any:
        self.told.append((event["type"], *args))
        return self.back


def test_calls_are_told_before_and_after_and_can_be_changed() -> None:
    def more(event: Any, name: str, params: Any) -> Any:
        return {**params, "b": 2} if name == "add" else None

    tools = {"add": lambda *args, **named: sum(args) + sum(named.values()), "more": more}
    flow = script(
        "$on: {event: beforeCall, callback: more}",
        "$on: {event: afterCall, callback: '?=args[1] * 10'}",
        "$add: {a: 1}",
    )
    assert flow.run(model=scripted(), tools=tools).output == 30
    heard = Heard()
    lines = ["$on: {event: afterCall, callback: hear}", "$add(1, b=4)"]
    script(*lines).run(model=scripted(), tools={**tools, "hear": heard})
    assert heard.told == [("afterCall", "add", {"b": 4, "args": [1]}, 5)]


def test_what_a_model_is_asked_can_be_changed() -> None:
    def change(event: Any, params: Any) -> Any:
        assert params["count"] == 0
        value = [*params["value"], {"role": "system", "content": "Be brief."}]
        return {"value": value, "options": {**params["options"], "max_tokens": 5}}

    heard, model = Heard(), scripted("A")
    script(
        "$on: {event: llmParams, callback: change}",
        "$on: {event: llmBefore, callback: hear}",
        "user: hi",
        "$AI: {temperature: 0.5}",
    ).run(model=model, tools={"change": change, "hear": heard})
    assert model.requests[0].system == "Be brief."
    assert dict(model.requests[0].inference) == {"temperature": 0.5, "maximumLength": 5}
    ((_, told),) = heard.told
    assert told["value"][0] == {"role": "user", "content": "hi"}


@pytest.mark.parametrize("back", ["x", {"value": [1]}, {"value": [{"role": "user"}]}, {"value": 5}])
def test_what_cannot_be_sent_is_an_error(back: Any) -> None:
    flow = script("$on: {event: llmParams, callback: hear}", "user: hi")
    with pytest.raises(FlowError, match="gives back a map of 'value'") as caught:
        flow.run(model=scripted("A"), tools={"hear": Heard(back)})
    assert caught.value.line == 2 and "监听者" in caught.value.message_zh


def test_a_reply_can_be_changed_and_is_told_in_parts() -> None:
    heard = Heard()
    result = script(
        "$on: {event: llmStream, callback: hear}",
        "$on: {event: llm, callback: \"?='<' + arg1 + '>'\"}",
        "$on: {event: llm, callback: \"?=arg1 + '!'\"}",
        "user: hi",
        "assistant: '[[A]]'",
    ).run(model=scripted("R"), tools={"hear": heard})
    assert result.output == result.variables["A"] == "<R>!"
    end = {"content": "", "stop": True, "finishReason": "stop"}
    assert heard.told == [
        ("llmStream", {"content": "R", "stop": False}, "R", 0),
        ("llmStream", end, "R", 0),
    ]


def test_a_listener_replies_in_the_models_place() -> None:
    lines = ["$on: {event: llmRequest, callback: \"?=arg1[0].content + '?'\"}", "user: hi"]
    assert script(*lines).run(model=scripted()).output == "hi?"
    model = scripted("R")
    head = ["---", "disableLlmRequest: true", "---"]
    assert script(*head, *lines).run(model=model).output == "R"


def test_events_of_a_scripts_own() -> None:
    heard = Heard()
    result = script(
        '$on: {event: test, callback: "?={a: arg1.a + 1, of: event.type}"}',
        "$once: {event: test, callback: hear}",
        "$emit: {event: test, args: {a: 1}}",
        "-> $set(first=LatestResult.a)",
        "$emit: {event: test, args: [{a: 5}, two]}",
    ).run(model=scripted(), tools={"hear": heard})
    assert result.output == {"a": 6, "of": "test"}
    assert heard.told == [("test", {"a": 2, "of": "test"})]


def test_listeners_are_taken_away() -> None:
    heard = Heard("changed")
    result = script(
        "$on: {event: test, callback: hear}",
        "$on: {event: test, callback: '?=7'}",
        "$off: {event: test, callback: hear}",
        "$emit: {event: test, args: 1}",
        "$set: {one: '?=LatestResult'}",
        "$off(test)",
        "$emit(test, 'as it was')",
    ).run(model=scripted(), tools={"hear": heard})
    assert (result.variables["one"], result.output, heard.told) == (7, "as it was", [])


def test_chats_are_loaded_and_saved_and_the_script_is_ready() -> None:
    saved, ready = Heard(), Heard()
    old = [{"role": "user", "content": "I am Emma"}, {"role": "assistant", "content": "Hi Emma"}]
    model = scripted("You are Emma")
    script(
        "system: S",
        "$on: {event: load-chats, callback: load}",
        "$on: {event: save-chats, callback: save}",
        "$on: {event: ready, callback: ready}",
        "---",
        "user: Who am I?",
    ).run(model=model, tools={"load": Heard(old), "save": saved, "ready": ready})
    assert texts(model.requests[0]) == ["I am Emma", "Hi Emma", "Who am I?"]
    ((_, messages, name),) = saved.told
    assert name == "main" and messages[:2] == old
    assert messages[2:] == [
        {"role": "user", "content": "Who am I?"},
        {"role": "assistant", "content": "You are Emma"},
    ]
    assert ready.told == [("ready", True)]


def test_scripts_and_instructions_listen(tmp_path: Path) -> None:
    (tmp_path / "shout.ai.yaml").write_text("$ret: \"?=content + '!'\"")
    main = tmp_path / "main.ai.yaml"
    main.write_text(
        "$on: {event: llm, callback: shout}\n$on: {event: llm, callback: $print}\nuser: q"
    )
    told: list[str] = []
    flow = load_flow(main)
    result = flow.run(
        model=scripted("R"),
        on_event=lambda it: told.append(it.members["text"]) if it.type == "token" else None,
    )
    assert result.output == "R!" and "R!" in told


def test_a_listener_is_not_told_of_what_it_does_itself() -> None:
    heard = Heard("x")
    lines = ["$on: {event: beforeCall, callback: '?=null'}", "$on: {event: llm, callback: hear}"]
    script(*lines, "user: q").run(model=scripted("R"), tools={"hear": heard})
    assert len(heard.told) == 1


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        (["$on: {event: llm, callback: nope}"], "no script 'nope'"),
        (["$once: {event: llm, callback: $nope}"], r"no instruction \$nope"),
        (["$on: {event: llm}"], "an 'event' and a 'callback'"),
        (["$on: {event: llm, callback: '?=1 +'}"], "the expression"),
        (["$set: {f: nope}", "$on('llm', f)", "user: q"], "nobody can listen as 'nope'"),
    ],
)
def test_listeners_that_are_none(lines: list[str], what: str) -> None:
    with pytest.raises(FlowError, match=what) as caught:
        script(*lines).run(model=scripted("R"))
    assert "第" in caught.value.message_zh


def test_what_a_listener_gives_back_is_a_value() -> None:
    model = scripted("R", "end")
    back = "{{ secret }} [[X]] [[@$echo(1)]]"
    script(
        "---", "secret: s", "---", "$on: {event: llm, callback: hear}", "user: q", "$AI", "user: q2"
    ).run(model=model, tools={"hear": Heard(back)})
    assert texts(model.requests[1])[1] == back


def test_a_run_that_goes_on_tells_nothing_twice() -> None:
    heard = Heard()
    flow = script(
        "$on: {event: beforeCall, callback: hear}",
        "$on: {event: afterCall, callback: hear}",
        "$on: {event: llm, callback: hear}",
        "user: q",
        "$AI",
        "$pay: {to: Emma}",
        "user: 'paid {{ LatestResult }}'",
    )
    options: dict[str, Any] = {"tools": {"hear": heard}, "action_groups": [handed_over()]}
    waits = flow.run(model=scripted("A"), **options)
    assert waits.waits_for == "call"
    assert [one[0] for one in heard.told] == ["llm", "beforeCall"]
    model = scripted("B")
    result = flow.resume(as_stored(waits.paused), model=model, results={"pay": "5"}, **options)
    assert result.output == "B"
    assert [one[0] for one in heard.told] == ["llm", "beforeCall", "afterCall", "llm"]
