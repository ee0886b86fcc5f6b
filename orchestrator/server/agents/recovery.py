"""Turns that stopped processes have left: a worker process looks for them and goes on with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from logging import INFO, WARNING
from threading import Event, Thread
from typing import TYPE_CHECKING

from orchestrator.agent.recovery import RecoveredTurn
from orchestrator.engine.plan import tenant_key_of
from orchestrator.errors import OrchestratorError, TurnLeft
from orchestrator.server.wire.faults import log_failure
from orchestrator.support.logs import get_logger

if TYPE_CHECKING:
    from orchestrator.agent.agent import Agent
    from orchestrator.server.agents.registry import Agents
    from orchestrator.server.operations import Caller
    from orchestrator.sessions import Sessions

_log = get_logger("orchestrator.server")

_INTERVAL = 30.0  # seconds between two looks
_PATIENCE = 60.0  # seconds


class TurnRecovery:
    """Goes on with turns whose process has ended: at the start, and every half a minute.

    A client whose server was killed asks again, which goes on with its turn too: only what nobody
    has asked for in `patience` seconds is gone on with here. Each turn runs for the tenant that it
    is of, with the agent that its alias stands for now. Of several worker processes one gets a
    turn. A turn whose agent is gone stays as it is.
    """

    def __init__(
        self, agents: Agents, sessions: Sessions, list_callers: Callable[[], Sequence[Caller]]
    ) -> None:
        """Begins nothing yet; `list_callers` gives the callers that the server knows."""
        self._agents, self._sessions, self._list_callers = agents, sessions, list_callers
        self.patience = _PATIENCE
        self._closing = Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Looks for turns in a thread of its own while a `with` block runs."""
        if not self._sessions.durable:
            yield
            return
        thread = Thread(target=self._run, name="recovery", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._closing.set()
            thread.join(_INTERVAL)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self.run_pass()
            except OrchestratorError as error:
                _log.warning("turns that a process may have left are not known: %s", error.message)
            except Exception as error:
                log_failure(error, "to go on with what a stopped process has left")
            self._closing.wait(_INTERVAL)

    def run_pass(self) -> list[RecoveredTurn]:
        """Looks once, and goes on with what it finds, one turn after the other."""
        recovered: list[RecoveredTurn] = []
        for label in self._sessions.open_turns.find_left("", int(self.patience * 1e9)):
            if self._closing.is_set():
                break
            self._recover(label, recovered)
        return recovered

    def _recover(self, label: str, recovered: list[RecoveredTurn]) -> None:
        parts, before = label.split("/"), len(recovered)
        caller = self._find_caller(parts[2] if len(parts) == 4 else "")
        if caller is None or not 3 <= len(parts) <= 4:
            return
        with suppress(TurnLeft), RecoveredTurn.observe(parts[-1], recovered) as turn:
            agent = self._agents.resolve_alias(caller, parts[0], parts[1])
            self._go_on(agent, turn)
        for one in recovered[before:]:
            _log_outcome(one, "/".join(parts[:2]), caller.tenant)

    def _go_on(self, agent: Agent, turn: RecoveredTurn) -> None:
        with closing(agent.stream("", turn.session_id)) as events:
            for event in events:
                if self._closing.is_set():
                    events.throw(TurnLeft())
                turn.reply = getattr(event, "reply", None)

    def _find_caller(self, tenant_key: str) -> Caller | None:
        for caller in self._list_callers():
            if tenant_key_of(caller.tenant) == tenant_key:
                return caller
        return None


def _log_outcome(turn: RecoveredTurn, agent: str, tenant: str) -> None:
    # Nobody has asked: what a caller would have read stands here.
    _log.log(
        INFO if turn.error is None else WARNING,
        "a turn of session %r of the agent %s%s that a process had left came to: %s%s",
        turn.session_id,
        agent,
        f" and tenant {tenant!r}" if tenant else "",
        turn.outcome,
        f"; {turn.error.message}" if turn.error is not None else "",
    )
