"""Attack 15: the journal cannot be written, such as on a full disk, after an action took effect."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from whole_agents import NATIVE, agent, answer

from orchestrator import ActionGroup, DependencyFailed, SQLiteStore, action
from orchestrator.errors import ActionOutcomeUnknown, OrchestratorError

PAY = ("bank::pay", {"to": "Ada"})
FULL = "the file 's.db' failed: database or disk is full"


class FullDisk(SQLiteStore):
    """A store whose disk is full once an action's outcome is to be written, until it is freed."""

    full = False
    raised: Exception = DependencyFailed(FULL)

    def append(self, key: str, count: int, records: Sequence[Any], **options: Any) -> None:
        self.full = self.full or any(record["kind"] == "action" for record in records)
        if self.full:
            raise self.raised
        super().append(key, count, records, **options)


class Bank:
    """A group of actions that count what they did."""

    def __init__(self, *, idempotent: bool = False) -> None:
        self.paid: list[str] = []

        @action(idempotent=idempotent)
        def pay(to: str) -> str:
            """Pays."""
            self.paid.append(to)
            return f"paid {to}"

        @action(idempotent=idempotent)
        def fail(to: str) -> str:
            """Fails."""
            self.paid.append(to)
            raise OSError("no")

        self.groups = [ActionGroup("bank", [pay, fail])]


@pytest.fixture
def store(tmp_path: Path) -> Any:
    made = FullDisk(tmp_path / "s.db")
    yield made
    made.close()


def ask(store: Any, bank: Bank, *replies: Any, question: str = "Pay.") -> Any:
    model = NATIVE.model(list(replies))
    try:
        return agent(model, bank.groups, sessions=store).invoke(question, "s-1")
    except OrchestratorError as error:
        return error


def kinds(store: Any) -> list[str]:
    (info,) = store.list()
    return [record["kind"] for record in store.load(info.key)]


@pytest.mark.parametrize("raised", [DependencyFailed(FULL), OSError(28, "canary")])
def test_the_error_says_that_the_action_took_effect(store: Any, raised: Exception) -> None:
    store.raised, bank = raised, Bank()
    error = ask(store, bank, NATIVE.calls(PAY))
    assert type(error) is ActionOutcomeUnknown
    assert error.resource == "bank::pay"
    assert error.message.startswith("'bank::pay' took effect, but the journal could not be written")
    assert (FULL in error.message) == isinstance(raised, DependencyFailed)
    assert "canary" not in error.message
    assert (bank.paid, kinds(store)) == (["Ada"], ["turn", "model", "intent"])


@pytest.mark.parametrize("question", ["", "Pay."])
@pytest.mark.parametrize("new_store", [False, True], ids=["this process", "another store"])
def test_the_action_is_not_run_again_and_the_next_request_says_so(
    store: Any, tmp_path: Path, question: str, new_store: bool
) -> None:
    bank = Bank()
    ask(store, bank, NATIVE.calls(PAY))
    store.full = False
    next_store = SQLiteStore(tmp_path / "s.db") if new_store else store
    store.append = lambda *args, **options: SQLiteStore.append(store, *args, **options)
    error = ask(next_store, bank, answer("Never."), question=question)
    assert type(error) is ActionOutcomeUnknown
    assert "nobody knows whether 'bank::pay'" in error.message
    assert bank.paid == ["Ada"]
    assert kinds(store)[2:] == ["intent", "claim", "suspend"]
    error = ask(next_store, bank, question="Hello?")
    assert type(error) is ActionOutcomeUnknown and error.undecided is not None
    assert bank.paid == ["Ada"]
    if new_store:
        next_store.close()


def test_an_action_that_failed_is_not_said_to_have_taken_effect(store: Any) -> None:
    error = ask(store, Bank(), NATIVE.calls(("bank::fail", {"to": "Bo"})))
    assert type(error) is ActionOutcomeUnknown
    assert error.message.startswith("'bank::fail' failed, and may have taken effect, but the jour")
