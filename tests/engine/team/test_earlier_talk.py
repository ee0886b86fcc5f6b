"""What of a session's talk reaches routers, relayed collaborators and summaries; what it costs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from teams import agent, model_of
from test_routing import router, team
from whole_agents import INSTRUCTION, NATIVE, answer

from orchestrator import Agent, Collaborator, SQLiteStore
from orchestrator.engine.plan import Memory
from orchestrator.memory import InMemoryMemory
from orchestrator.message import Message
from orchestrator.prompts import load_dialect, partials
from orchestrator.sessions import session as sessions

BEFORE = [
    {"role": "user", "content": [{"text": "I am <Ana>."}]},
    {"role": "assistant", "content": [{"text": "Hello, Ana."}]},
]


def told(prompt: str) -> list[str]:
    """The sayings of a `$conversation$`."""
    return re.findall(r"<message [^>]*>\\?n?(.*?)\\?n?</message>", prompt, re.DOTALL)


def relaying(words: list[str], **options: Any) -> tuple[Agent, Agent]:
    helper = agent("helper", {f"Do {word}.": [f"{word}!"] for word in words})
    script = {f"Say {word}.": [[("helper", f"Do {word}.")], f"{word} it is."] for word in words}
    member = Collaborator(helper, "Helps.", relay_conversation_history=True)
    return helper, agent("boss", script, member, **options)


def talk_of(one: Agent) -> list[str]:
    messages = model_of(one).requests[-1].messages
    return ["".join(block["text"] for block in message["content"]) for message in messages]


@pytest.mark.parametrize("restart", [False, True])
def test_given_history_is_relayed_from_the_first_turn_on(restart: bool, tmp_path: Path) -> None:
    helper, boss = relaying(["one", "two"], sessions=SQLiteStore(tmp_path / "s.db"))
    boss.invoke("Say one.", "s-1", conversation_history=BEFORE)
    assert talk_of(helper)[:3] == ["I am <Ana>.", "Hello, Ana.", "Do one."]
    if restart:
        helper, boss = relaying(["one", "two"], sessions=SQLiteStore(tmp_path / "s.db"))
    boss.invoke("Say two.", "s-1")
    assert talk_of(helper)[:4] == ["I am <Ana>.", "Hello, Ana.", "Say one.", "one it is."]


def test_given_history_is_routed_with_from_the_first_turn_on() -> None:
    boss = team("<a>bills</a>")
    boss.invoke("My bill?", "s-1", conversation_history=BEFORE)
    assert told(router(boss).prompt()) == ["I am &lt;Ana&gt;.", "Hello, Ana.", "My bill?"]


def test_given_history_is_summarised() -> None:
    model = NATIVE.model([answer("Hi."), "<summary><topic name='T'>Ana.</topic></summary>"])
    subject = Agent("hr", INSTRUCTION, model, memory=Memory(InMemoryMemory()))
    asked: dict[str, Any] = {"memory_id": "ana", "end_session": True}
    subject.invoke("Hi?", "s-1", conversation_history=BEFORE, **asked)
    shown = str(model.requests[-1].system) + str(model.requests[-1].messages)
    assert "I am &lt;Ana&gt;." in shown and "Hello, Ana." in shown and "Hi?" in shown


@pytest.mark.parametrize(("turns", "expected"), [(0, 0), (1, 1), (2, 2), (9, 3), (None, 3)])
def test_a_router_reads_as_many_earlier_turns_as_the_caller_wants(
    turns: int | None, expected: int
) -> None:
    boss = team(*["<a>bills</a>"] * 3)
    boss.invoke("My first bill?", "s-1", conversation_history=BEFORE)
    boss.invoke("My second bill?", "s-1")
    options: dict[str, Any] = {} if turns is None else {"previous_turns": turns}
    boss.invoke("My third bill?", "s-1", **options)
    earlier = [
        *("I am &lt;Ana&gt;.", "Hello, Ana."),
        *("My first bill?", "Your bill is 12."),
        *("My second bill?", "Your bill is 12."),
    ]
    assert told(router(boss).prompt()) == [*earlier[6 - 2 * expected :], "My third bill?"]


def test_a_summary_is_whole_whatever_the_prompts_tell() -> None:
    summary = "<summary><topic name='T'>Ana.</topic></summary>"
    model = NATIVE.model([answer("One."), answer("Two."), summary])
    subject = Agent("hr", INSTRUCTION, model, memory=Memory(InMemoryMemory()))
    subject.invoke("First?", "s-1", memory_id="ana")
    subject.invoke("Second?", "s-1", end_session=True, previous_turns=0)
    assert "First?" not in str(model.requests[1].messages)
    shown = str(model.requests[-1].system) + str(model.requests[-1].messages)
    assert "First?" in shown and "Two." in shown


def test_a_router_renders_a_saying_once_in_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[str] = []
    encode = partials.encode
    monkeypatch.setattr(partials, "encode", lambda text: encoded.append(text) or encode(text))
    boss = team(*["<a>bills</a>"] * 12)
    for number in range(12):
        boss.invoke(f"My bill {number}?", "s-1")
    # Twice each question: as the turn's own, and as one of the earlier turns.
    assert [encoded.count(f"My bill {number}?") for number in (0, 5, 10)] == [3, 3, 3]
    assert encoded.count("Your bill is 12.") == 11


def test_a_saying_is_made_a_message_once_for_relays(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Counted(Message):
        def __init__(self, role: str, content: Any, *rest: Any) -> None:
            made.append(content)
            super().__init__(role, content, *rest)

    words = [f"w{number}" for number in range(12)]
    helper, boss = relaying(words)
    monkeypatch.setattr(sessions, "Message", Counted)
    for word in words:
        boss.invoke(f"Say {word}.", "s-1")
    assert len(made) == 2 * 11
    assert talk_of(helper)[-3:] == ["Say w10.", "w10 it is.", "Do w11."]


@pytest.mark.parametrize(
    "text",
    [
        "{% for turn in turns %}{{ loop.index }}. {{ turn.text }}\n{% endfor %}",
        "Talk:\n{% for turn in turns %}{{ turn.text }}\n{% endfor %}",
        "{% for turn in turns %}{{ turn.text }} of {{ turns | length }}\n{% endfor %}",
        "{% for turn in turns %}{{ turn.text }}\n{% else %}nothing{% endfor %}",
        "{% for turn in turns %}{{ turn.role }}: {{ turn.text }}\n{% endfor %}",
    ],
)
def test_a_conversation_of_ones_own_is_told_as_it_says(text: str, tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "conversation.j2").write_text(text)
    boss = team(*["<a>bills</a>"] * 3, templates=tmp_path / "templates")
    talk: list[dict[str, str]] = []
    for number in range(3):
        question = f"My bill {number}?"
        boss.invoke(question, "s-1")
        talk.append({"role": "user", "text": question})
        dialect = load_dialect("tool-use", tmp_path / "templates")
        expected = dialect.partial("conversation", turns=talk)
        assert expected.replace("\n", "\\n") in router(boss).prompt().replace("\n", "\\n")
        talk.append({"role": "assistant", "text": "Your bill is 12."})
