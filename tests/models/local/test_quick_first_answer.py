"""The beginning of a prompt on disk, with the real runtime and the light model."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from orchestrator.message import AUTHOR, Message, Span, Text
from orchestrator.models import llama
from orchestrator.models.base import ModelReply, ModelRequest
from orchestrator.models.local import LocalModel
from orchestrator.models.prompt_states import PromptStates, State

pytestmark = [pytest.mark.local("0.5b"), pytest.mark.exhaustive]

RULES = "You answer questions about mathematics in exactly one short sentence. " * 15


def request(question: str, system: str = RULES) -> ModelRequest:
    text = Text.of(system, (Span(0, 0, len(system), AUTHOR),))
    messages = [Message("user", [{"text": question}], "question")]
    return ModelRequest("ORCHESTRATION", text, messages, inference={"maximumLength": 8})


def new_process(folder: Path) -> LocalModel:
    """The model as a new process has it, with its states in `folder`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(llama, "PromptStates", lambda: PromptStates(folder))
        patch.setattr(llama, "_loaded", {})
        model = LocalModel("light", context=1024)
        loaded = model._runtime(None)
    # What this process has loaded is not shared with other tests.
    model._runtime = lambda progress: loaded  # type: ignore[method-assign]
    return model


def only_state(folder: Path) -> State:
    (state,) = PromptStates(folder).entries()
    return state


class First(NamedTuple):
    """What the first process read, saw and answered."""

    folder: Path
    model: LocalModel
    reply: ModelReply
    seen: list[tuple[int, int]]


QUESTION = "What is two and two?"


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> First:
    folder = tmp_path_factory.mktemp("states") / "prompts"
    model, seen = new_process(folder), []
    model.reading = lambda done, total: seen.append((done, total))
    return First(folder, model, model.complete(request(QUESTION)), seen)


def test_the_first_process_reads_all_of_it_and_shows_how_far_it_is(first: First) -> None:
    tokens = only_state(first.folder).tokens
    assert tokens > 150
    assert first.reply.usage.input_tokens > tokens and first.reply.usage.cache_read_tokens == 0
    # A sign with each batch, of the beginning and of what follows it.
    assert first.seen[:3] == [(0, tokens), (64, tokens), (128, tokens)]
    assert (tokens, tokens) in first.seen
    assert first.seen[-1][0] == first.seen[-1][1] < 64


def test_a_later_process_reads_the_question_only(first: First) -> None:
    reply = new_process(first.folder).complete(request(QUESTION))
    assert reply.text == first.reply.text
    assert reply.usage.input_tokens < 30
    assert reply.usage.cache_read_tokens == only_state(first.folder).tokens
    assert reply.usage.total_tokens == first.reply.usage.total_tokens


def test_a_damaged_file_is_read_anew_and_has_no_word_of_the_turn(
    first: First, tmp_path: Path
) -> None:
    folder, known = tmp_path / "prompts", only_state(first.folder)
    assert PromptStates(folder).open()
    half = known.file.read_bytes()[: known.size // 2]  # it would end the whole process
    (folder / known.file.name).write_bytes(half)
    model = new_process(folder)
    model.complete(request("My secret is canary-3f9a. What is one and one?"))
    # Byte for byte what the first process wrote after another question.
    assert only_state(folder).file.name == known.file.name
    assert only_state(folder).file.read_bytes() == known.file.read_bytes()
    assert model.complete(request(QUESTION)).text == first.reply.text


def test_requests_at_once_do_not_get_into_each_others_states(first: First, tmp_path: Path) -> None:
    folder = tmp_path / "prompts"
    model = new_process(folder)
    others = ["Other rules. " + RULES, RULES]
    asked = [request("My secret is canary-3f9a. Is it?", rules) for rules in (*others, *others)]
    threads = [threading.Thread(target=model.complete, args=(one,)) for one in asked]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    known = only_state(first.folder)
    one, other = PromptStates(folder).entries()
    found = one if one.key == known.key else other
    # A header of six numbers, then the tokens: none but those of the beginning.
    ids = slice(4 * (6 + known.tokens))
    assert found.key == known.key
    assert found.file.read_bytes()[ids] == known.file.read_bytes()[ids]


def test_agents_take_turns_and_no_conversation_is_read_again(first: First, tmp_path: Path) -> None:
    folder, known = tmp_path / "prompts", only_state(first.folder)
    assert PromptStates(folder).open()
    (folder / known.file.name).write_bytes(known.file.read_bytes())
    model = new_process(folder)
    long = "Count the words of this: " + "apple pear " * 60
    model.complete(request(long, "Other rules. " + RULES))
    reply = model.complete(request(QUESTION))  # its beginning is loaded over the other prompt
    assert (reply.text, reply.usage.input_tokens < 30) == (first.reply.text, True)
    assert model.complete(request(long, "Other rules. " + RULES)).usage.input_tokens < 30


def test_the_states_are_behind_the_key(first: First) -> None:
    address = urlsplit(first.model._runtime(None)._server.listening_address)
    for method, path in (
        *(("POST", f"/slots/0?action={action}") for action in ("save", "restore", "erase")),
        ("GET", "/slots"),
    ):
        for headers in ({}, {"Authorization": "Bearer no"}, {"X-Api-Key": ""}):
            connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
            body = json.dumps({"filename": "x.state"}) if method == "POST" else None
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            reply.read()
            connection.close()
            assert reply.status == 401
    assert not (first.folder / "x.state").exists()


@pytest.mark.parametrize("name", ["../x.state", "/tmp/x.state", "a/b.state", "", "gone.state"])
def test_no_file_of_another_folder_is_loaded(first: First, name: str) -> None:
    with pytest.raises(OSError, match="did not restore"):
        first.model._runtime(None).restore(name)


def test_without_a_folder_of_its_own_prompts_are_read_as_ever(first: First, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    model = new_process(tmp_path / "file" / "prompts")
    reply = model.complete(request(QUESTION))
    assert (reply.text, reply.usage) == (first.reply.text, first.reply.usage)


PROGRAM = """
import sys
from pathlib import Path
from test_quick_first_answer import QUESTION, new_process, request
print(new_process(Path(sys.argv[1])).complete(request(QUESTION)).usage.input_tokens)
"""


def test_processes_that_begin_at_once_all_answer(tmp_path: Path) -> None:
    def start() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / "prompts")]
        here = Path(__file__).parent
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=here)

    def read_all() -> list[int]:
        running: list[Any] = [start(), start()]
        outputs = [one.communicate()[0] for one in running]
        assert [one.returncode for one in running] == [0, 0]
        return [int(output) for output in outputs]

    assert max(read_all()) > 150
    assert max(read_all()) < 30
