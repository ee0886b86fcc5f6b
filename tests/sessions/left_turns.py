"""Turns whose process has stopped in an action, and what goes on with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from whole_agents import INSTRUCTION, NATIVE

from orchestrator import ActionGroup, Agent, Limits, Sessions, SQLiteStore, action
from orchestrator.actions import ActionResult, Call

CALL = NATIVE.calls(("bank::pay", {"to": "ann"}))


class Died(BaseException):
    """The process has ended."""


class Bank:
    """Pays, or dies while it does."""

    def __init__(self, *, dies: bool = False) -> None:
        self.dies, self.keys = dies, list[str]()

    def call(self, call: Call, context: Any) -> ActionResult:
        self.keys.append(call.key)
        if self.dies:
            raise Died
        return ActionResult("paid")


class Knowing(Bank):
    """A bank that can be asked what became of a payment."""

    def __init__(self, outcome: Any) -> None:
        super().__init__()
        self.outcome, self.asked = outcome, list[str]()

    def status(self, key: str) -> Any:
        self.asked.append(key)
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


class Places:
    """Agents over one file; each is in a process of its own, which leaves what it stops in."""

    def __init__(self, file: Path) -> None:
        self.file, self.stores = file, list[SQLiteStore]()

    def agent(self, bank: Bank, *script: Any, name: str = "bank", **options: Any) -> Agent:
        @action
        def pay(to: str) -> str:
            """Pays somebody."""
            raise AssertionError("the executor does it")

        self.stores.append(SQLiteStore(self.file))
        sessions = Sessions(self.stores[-1])
        sessions.leaving = True
        group = ActionGroup("bank", [pay], bank)
        model = NATIVE.model(list(script))
        limits = Limits(action_seconds=None)
        return Agent(
            name,
            INSTRUCTION,
            model,
            action_groups=[group],
            sessions=sessions,
            limits=limits,
            **options,
        )

    def leave_turn(self, session: str, reply: Any = CALL, **options: Any) -> str:
        """A turn that stops in the middle of a payment; the payment's key."""
        bank = Bank(dies=True)
        with pytest.raises(Died):
            self.agent(bank, reply).invoke("Pay Ann", session, **options)
        return bank.keys[0]


@pytest.fixture
def places(tmp_path: Path) -> Any:
    made = Places(tmp_path / "s.sqlite")
    yield made
    for store in made.stores:
        store.close()
