"""Servers of the Model Context Protocol as action groups.

Needs the extra `mcp` (`pip install 'bedrock-orchestrator[mcp]'`), which is imported when the first
server is started. The tools that a server has when the group is made are the group's operations
from then on: they are asked for again before every call, and a call of a tool that is not what it
was is refused, with the difference, so that nobody calls what nobody has seen.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import threading
import time
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from logging import INFO, WARNING
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from orchestrator.actions._mcp_tools import (
    MOST_PARTS,
    NoAnswer,
    NotAsked,
    Refusal,
    definitions_of,
    operation_of,
    result_of,
)
from orchestrator.actions.base import ActionResult, Call, CallContext, Operation
from orchestrator.actions.hosts import Hosts, RefusedAddress, port_of
from orchestrator.actions.placeholders import PlaceholderText
from orchestrator.actions.schemas import SchemaSize
from orchestrator.errors import (
    AccessDenied,
    ActionOutcomeUnknown,
    DefinitionError,
    DependencyFailed,
    ModelNotReady,
    ThrottlingError,
)
from orchestrator.support.lazy_imports import describe_missing_extra
from orchestrator.support.logs import get_logger
from orchestrator.support.redaction import hide_credentials, is_credential
from orchestrator.support.spelling import did_you_mean
from orchestrator.support.user_code import is_debugging

if TYPE_CHECKING:
    from orchestrator.actions._mcp_link import Link

_log = get_logger("orchestrator.mcp")
_DIFFERENT_LINES = 40
_COMPARED_LINES = 500
_LONGEST_MESSAGE = 2000  # characters of a server's own

# Definitions of tools, in MCP's members, by name.
Tools = dict[str, dict[str, Any]]


class MCPServer:
    """An MCP server, as the executor of a group whose operations are the server's tools.

    `ActionGroup("files", executor=MCPServer(["python", "server.py"]))` starts the server and asks
    for its tools. It runs until `close()`, or until nothing refers to it, or until Python ends; a
    server that has stopped is started again by the next call. What needs the server raises
    `DependencyFailed` when it cannot be started.

    Attributes:
        name: What it is called in messages: its command's first word, or its url's host.
    """

    def __init__(
        self,
        command: Sequence[str] | None = None,
        *,
        url: str | None = None,
        environment: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        folder: str | Path | None = None,
        tools: Collection[str] | None = None,
        require_confirmation: Collection[str] = (),
        lock_file: str | Path | None = None,
        timeout: float = 30.0,
        allow_private: Sequence[str] = (),
    ) -> None:
        """Makes the executor; nothing is imported or started yet.

        Args:
            command: The program and its arguments, for a server that speaks over standard input
                and output. It is started without a shell.
            url: The address of a server that speaks streamable HTTP, instead.
            environment: Environment variables of the command, besides `PATH`, `HOME` and the like:
                the process's other variables are not handed on. In a value, `${env:NAME}` stands
                for one of the process's.
            headers: Headers of every request to `url`; `${env:NAME}` as in `environment`, and
                then only over https, or to a host of `allow_private`.
            folder: The folder that the command runs in.
            tools: The only tools that the agent has; all when `None`.
            require_confirmation: Tools that the user must confirm.
            lock_file: A file written by `lock`, with the tools as they were reviewed. The group is
                made of them, without starting the server, and the server must have the same.
            timeout: Seconds that the server's start and its list of tools have together, and each
                call with all that it needs; the agent's `action_seconds` holds besides. A server
                that is still silent then is ended at once.
            allow_private: Names of hosts that may have private addresses, as they are in the url:
                `localhost`, `tools.internal`.

        Raises:
            DefinitionError: Something of this is wrong; the message names it.
        """
        if (command is None) == (url is None):
            raise DefinitionError("an MCP server has either a command or a url")
        # A text would have to be split, and quoting differs between systems.
        if isinstance(command, str) or (command is not None and not command):
            raise DefinitionError(
                f"the command of an MCP server is a list, such as ['python', 'server.py'], not "
                f"{command!r}"
            )
        if not timeout > 0:
            raise DefinitionError(
                f"the timeout of an MCP server is {timeout!r}; it must be above 0"
            )
        if url is not None and not url.startswith(("https://", "http://")):
            raise DefinitionError(
                f"the MCP server's url {url!r} must begin with https:// or http://"
            )
        self.name = (
            Path(command[0]).name if command else urlsplit(str(url)).netloc.rpartition("@")[2]
        )
        self._command, self._url, self._folder = command, url, folder
        self._variables = _values("the environment variable", environment)
        self._headers = _values("the header", headers)
        self._hosts = Hosts(allow_private)
        if url is not None and any(one.is_secret for one in self._headers.values()):
            parts = urlsplit(url)
            self._hosts.check_credentials(
                parts, f"the MCP server's url {parts.scheme}://{self.name}"
            )
        self._only = tools
        self._confirmed = require_confirmation
        self._lock_file = Path(lock_file) if lock_file is not None else None
        self._seconds = timeout
        self._frozen: Tools | None = None
        self._names: dict[str, str] = {}
        self._link = _Current()
        weakref.finalize(self, self._link.close)

    def __repr__(self) -> str:
        return f"MCPServer({self.name!r})"

    def __enter__(self) -> MCPServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the definitions of the tools, in hexadecimal; starts the server if need be."""
        return hashlib.sha256(_to_json(self._tools()).encode()).hexdigest()

    def operations(self, group: str) -> tuple[Operation, ...]:
        """The server's tools as operations of the group `group`.

        A tool's name becomes one that operations may have (`files.read` is `files_read`); its
        `readOnlyHint` or `idempotentHint` says that a call may be repeated when its outcome is
        unknown.

        Raises:
            DefinitionError: A definition is wrong, hides characters, or two names become the same.
        """
        made: list[Operation] = []
        names: dict[str, str] = {}
        size = SchemaSize(MOST_PARTS)
        for name, tool in self._tools().items():
            operation = operation_of(group, name, tool, size, confirm=name in self._confirmed)
            made.append(operation)
            other = names.setdefault(operation.name, name)
            if other != name:
                raise DefinitionError(
                    f"the tools {other!r} and {name!r} of the MCP server {self.name!r} would both "
                    f"be called {operation.name!r}; leave one out with `tools`"
                )
        self._names = names
        return tuple(made)

    def lock(self, path: str | Path) -> None:
        """Writes the tools' definitions to a file, for review and for `lock_file`."""
        Path(path).write_text(
            _to_json(self._select_tools(self._list_tools())) + "\n", encoding="utf-8"
        )

    def call(self, call: Call, context: CallContext) -> ActionResult:
        """Calls a tool. The model reads an error that the tool describes.

        Raises:
            ActionOutcomeUnknown: Nobody knows whether the tool took effect.
            DependencyFailed: The server failed or refused the call, or the tool is not what it was
                when the group was made; the message then shows the difference.
        """
        operation = call.operation
        seconds = self._seconds if context.seconds is None else min(self._seconds, context.seconds)
        until = time.monotonic() + seconds
        name = self._names[operation.name]
        self._check(name, operation, until)
        unknown = DependencyFailed if operation.idempotent else ActionOutcomeUnknown
        link = self._open_link(until)
        try:
            result = result_of(link.call(name, call.arguments, until))
            result.text = self._hide_credentials(result.text)
            return result
        except Refusal as error:
            if error.advice is not None:
                return ActionResult(self._shorten(error.advice), "REPROMPT")
            self._log_message(error)
            if not error.begun:
                text = f"the MCP server {self.name!r} refused to call {name!r} ({error})"
                raise _build_refusal(error, text, operation.xml_name) from None
            raise unknown(
                f"the MCP server {self.name!r} failed at {name!r} ({error}); it may have taken "
                "effect, and was not asked again",
                resource=operation.xml_name,
            ) from None
        except NotAsked as error:
            self._link.give_up(link)
            raise DependencyFailed(
                f"the MCP server {self.name!r} was not asked to call {name!r}: {error}",
                resource=operation.xml_name,
            ) from None
        except NoAnswer as error:
            self._link.give_up(link)
            raise unknown(
                f"the MCP server {self.name!r} was asked to call {name!r} and did not answer "
                f"({error}); it may have taken effect, and was not asked again",
                resource=operation.xml_name,
            ) from None

    def close(self) -> None:
        """Stops the server, with its whole process tree, and waits for its end."""
        self._link.close()

    def _tools(self) -> Tools:
        if self._frozen is None:
            file = self._lock_file
            tools = self._list_tools() if file is None else _read_lock_file(file)
            for name in (*(self._only or ()), *self._confirmed):
                if name not in tools:
                    raise DefinitionError(
                        f"the MCP server {self.name!r} has no tool {name!r}"
                        f"{did_you_mean(name, tools)}"
                    )
            self._frozen = self._select_tools(tools)
        return self._frozen

    def _select_tools(self, tools: Tools) -> Tools:
        return {name: tools[name] for name in tools if self._only is None or name in self._only}

    # A server that has stopped is started again, once, if there is time.
    def _list_tools(self, until: float | None = None, *, again: bool = True) -> Tools:
        until = time.monotonic() + self._seconds if until is None else until
        link = self._open_link(until)
        try:
            return definitions_of(link.tools(until))
        except (NoAnswer, Refusal) as error:
            broken = isinstance(error, NoAnswer) or error.lost
            if broken:
                self._link.give_up(link)
            if not (broken and again and time.monotonic() < until):
                raise self._build_failure(error) from None
        return self._list_tools(until, again=False)

    def _open_link(self, until: float) -> Link:
        link = self._link.get(lambda: self._start(until), until)
        if link is None:
            late = NoAnswer("another call was still starting it when the time was up")
            raise self._build_failure(late)
        return link

    def _check(self, name: str, operation: Operation, until: float) -> None:
        frozen = self._tools()[name]
        live = self._list_tools(until).get(name)
        # A server may change a tool after it was reviewed ("rug pull"): such a call is refused.
        if live == frozen:
            return
        change = "is gone" if live is None else "is not what it was when the agent was made"
        raise DependencyFailed(
            f"the tool {name!r} of the MCP server {self.name!r} {change}, and was not called. Look "
            f"at the difference, and load the agent again if it is meant:\n"
            f"{self._diff(frozen, live)}",
            resource=operation.xml_name,
        )

    def _hide_credentials(self, text: str) -> str:
        sent = (*self._variables.values(), *self._headers.values())
        found = [secret for one in sent for secret in one.credentials(None, session=False)]
        return hide_credentials(text, found)

    # Credentials are hidden first: of one that is cut, the rest would stay.
    def _shorten(self, message: str) -> str:
        return self._hide_credentials(message)[:_LONGEST_MESSAGE]

    def _diff(self, frozen: Any, live: Any) -> str:
        before = self._hide_credentials(_to_json(frozen))
        now = self._hide_credentials(_to_json(live)) if live is not None else ""
        return _diff(before.splitlines(), now.splitlines())

    def _check_address(self) -> None:
        # Every request is checked again; here the message has the way out.
        if self._url is None:
            return
        url = urlsplit(self._url)
        host = url.hostname or ""
        try:
            self._hosts.resolve(host, port_of(url))
        except RefusedAddress as error:
            raise self._build_failure(NoAnswer(str(error))) from None
        except OSError:
            raise self._build_failure(NoAnswer(f"the name {host!r} is unknown")) from None

    def _start(self, until: float) -> Link:
        try:
            from orchestrator.actions._mcp_link import Link, LinkSettings
        except ImportError as error:
            message = describe_missing_extra("MCP servers need", "mcp", error.name)
            raise ModelNotReady(message) from error
        self._check_address()
        variables = {key: value.fill(None, self.name) for key, value in self._variables.items()}
        headers = {key: value.fill(None, self.name) for key, value in self._headers.items()}
        at = self._command, self._url, variables, headers, self._folder, self._hosts
        try:
            return Link(LinkSettings(*at), until)
        except (NoAnswer, Refusal) as error:
            raise self._build_failure(error) from None

    def _build_failure(self, why: NoAnswer | Refusal) -> DependencyFailed:
        text = f"the MCP server {self.name!r} could not be started, or does not list its tools"
        if isinstance(why, NoAnswer):
            return DependencyFailed(f"{text}: {why}", resource=self.name)
        self._log_message(why)
        return _build_refusal(why, f"{text}: {why}", self.name)

    # An error's message may hold what nobody else may read, so it is in no exception.
    def _log_message(self, error: Refusal) -> None:
        if error.said:
            text, level = self._shorten(error.said), WARNING if is_debugging() else INFO
            _log.log(level, "the MCP server %r answered with %s: %s", self.name, error, text)


def _build_refusal(error: Refusal, text: str, resource: str) -> DependencyFailed:
    if error.status in (401, 407):
        text = f"{text}; check the headers of the definition"
        return AccessDenied(text, resource=resource)
    if error.status == 429:
        return ThrottlingError(text, resource=resource)
    return DependencyFailed(text, resource=resource)


# A server's finaliser holds this instead of the server, which it would keep alive.
class _Current:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._link: Link | None = None

    def get(self, start: Callable[[], Link], until: float) -> Link | None:
        """The link, started if there is none; `None` when another starts it until then."""
        if not self._lock.acquire(timeout=max(until - time.monotonic(), 0)):
            return None
        try:
            if self._link is None or not self._link.alive:
                self._link = start()
            return self._link
        finally:
            self._lock.release()

    def close(self) -> None:
        if (link := self._take()) is not None:
            link.close()

    def give_up(self, broken: Link) -> None:
        """Ends a server or a connection that does not answer; the next call starts another."""
        with self._lock:
            if self._link is broken:
                self._link = None
        broken.abandon()

    def _take(self) -> Link | None:
        with self._lock:
            link, self._link = self._link, None
        return link


def _values(what: str, texts: Mapping[str, str] | None) -> dict[str, PlaceholderText]:
    return {
        name: PlaceholderText(
            f"{what} {name!r}", value, session=False, credential=is_credential(name, str(value))
        )
        for name, value in (texts or {}).items()
    }


def _to_json(tools: Any) -> str:
    # ASCII only: what cannot be seen is seen as an escape.
    return json.dumps(tools, indent=1, sort_keys=True)


def _diff(before: list[str], now: list[str]) -> str:
    if max(len(before), len(now)) > _COMPARED_LINES:  # the time of a diff grows with its square
        pairs = enumerate(zip(before, now, strict=False))
        first = next((at for at, (one, other) in pairs if one != other), min(len(before), len(now)))
        before, now = (it[first : first + _COMPARED_LINES] for it in (before, now))
    lines = list(difflib.unified_diff(before, now, "before", "now", n=1, lineterm=""))
    shown = [line if len(line) <= 200 else f"{line[:199]}…" for line in lines[:_DIFFERENT_LINES]]
    return "\n".join(shown + ["…"] * (len(lines) > len(shown)))


def _read_lock_file(file: Path) -> Tools:
    try:
        tools = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DefinitionError(
            "there is no such file; write it with `MCPServer(...).lock(file)` and review it",
            file=file,
        ) from error
    except (OSError, ValueError) as error:
        raise DefinitionError("the file cannot be read as JSON", file=file) from error
    if not isinstance(tools, dict) or not all(isinstance(one, dict) for one in tools.values()):
        raise DefinitionError("the file must map names to definitions of tools", file=file)
    return tools
