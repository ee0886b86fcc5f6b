"""Which variables statements read and assign, and whether a loop's iterations depend on each other.

An iteration depends on those before it when it reads what they have assigned: a variable that the
loop assigns, unless the iteration itself has assigned it by then, whichever way it went. To append
(`>>`) reads nothing: what iterations append is put together in the order of the list. An agent that
the loop creates is a tool of all that comes after it, so models that are offered it read it, too.

A breakpoint, an agent that talks with the user, and the end of the program need an order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.flows.pl.nodes import (
    AgentCall,
    Block,
    Breakpoint,
    CodeBlock,
    Exit,
    FunctionCall,
    If,
    Judge,
    Loop,
    Prompt,
    Statement,
    Target,
)
from orchestrator.flows.pl.values import find_variable_names
from orchestrator.flows.steps import Place
from orchestrator.flows.tree import Node, parts_of
from orchestrator.support.safe_json import iter_texts


def statements_in(block: Block) -> Iterator[Statement]:
    """All statements of a block, those of blocks in it too."""
    for one in block:
        yield one
        if isinstance(one, Loop):
            yield from statements_in(one.body)
        elif isinstance(one, If):
            for branch in one.branches:
                yield from statements_in(branch.body)


def calls_in(program: Block) -> dict[str, Place]:
    """The functions that must be there before a program runs, and where each is called first.

    Those are all that it calls, besides agents that it makes. A program with a breakpoint is not
    asked for any: its caller may register them when it goes on.
    """
    if any(isinstance(it, Breakpoint) for it in statements_in(program)):
        return {}
    own = {it.target.name for it in statements_in(program) if isinstance(it, AgentCall)}
    found: dict[str, Place] = {}
    for one in statements_in(program):
        if isinstance(one, FunctionCall) and one.name not in own:
            found.setdefault(one.name, one.place)
    return found


def target_of(statement: Statement) -> Target | None:
    """Where a statement's value goes; `None` when nowhere."""
    target: Target | None = getattr(statement, "target", None)
    return target if target is not None and target.name else None


def find_assigned_names(statement: Statement) -> Iterator[str]:
    """The variable that a statement assigns itself, without the blocks in it."""
    if isinstance(statement, Loop):
        yield statement.name
    elif (target := target_of(statement)) is not None:
        yield target.name


def find_read_names(statement: Statement) -> Iterator[str]:
    """The variables that a statement reads itself, without the blocks and conditions in it."""
    match statement:
        case CodeBlock(kind="json"):
            for text in iter_texts(statement.data):
                yield from find_variable_names(text)
        case Prompt() | CodeBlock():
            yield from find_variable_names(statement.text)
        case FunctionCall() | AgentCall():
            for argument in statement.arguments:
                yield from names_in_node(argument.node)
        case Judge():
            yield from names_in_node(statement.content)
            yield from names_in_node(statement.classes)
        case Exit():
            yield from names_in_node(statement.message)
        case Loop():
            yield from names_in_node(statement.items)


def arguments_of(program: Block) -> tuple[list[str], set[str]]:
    """The arguments that a program wants, and all names that mean something to it."""
    read: dict[str, None] = {}
    assigned: set[str] = set()
    for one in statements_in(program):
        read |= dict.fromkeys(find_read_names(one))
        assigned.update(find_assigned_names(one))
        for branch in one.branches if isinstance(one, If) else ():
            read |= dict.fromkeys(names_in_node(branch.condition))
    return [name for name in read if name not in assigned], {*read, *assigned}


def names_in_node(node: Node | None) -> Iterator[str]:
    """The variables that an expression reads."""
    if node is None:
        return
    if node.kind == "text":
        yield from find_variable_names(node.value)
    elif node.kind == "path":
        yield str(node.value[0][0])
    for part in parts_of(node):
        yield from names_in_node(part)


@dataclass(frozen=True, slots=True)
class Dependence:
    """Why a loop's iterations run one after the other."""

    place: Place  # the statement in the loop that is the reason
    message: str  # the reason
    message_zh: str  # the same in Chinese


def find_dependences(program: Block) -> dict[Place, Dependence]:
    """The loops of a program whose iterations depend on each other, by their places, and why."""
    loops = [it for it in statements_in(program) if isinstance(it, Loop)]
    agents = [it for it in statements_in(program) if isinstance(it, AgentCall)]
    found = {
        loop.place: _Iteration(
            loop, _find_talkers(agents, _find_last_line(loop, loops))
        ).find_dependence()
        for loop in loops
    }
    return {place: one for place, one in found.items() if one is not None}


def _find_last_line(loop: Loop, loops: Sequence[Loop]) -> int:
    """The last line whose statements may have run when one of a loop runs."""
    around = next((it for it in loops if loop in statements_in(it.body)), loop)
    return max([it.place.line for it in statements_in(around.body)], default=loop.place.line)


def _find_talkers(agents: Sequence[AgentCall], upto: int) -> set[str]:
    """The agents made up to a line that may talk with the user, themselves or by their tools."""
    earlier = [it for it in agents if it.place.line <= upto]
    talks = {it.target.name for it in earlier if _may_talk(it)}
    known = 0
    while len(talks) > known:
        known = len(talks)
        talks |= {it.target.name for it in earlier if _tools(it, talks) & talks}
    return talks


def _may_talk(statement: AgentCall) -> bool:
    kind = next((it.node for it in statement.arguments if it.name == "type"), None)
    return kind is not None and (kind.kind != "text" or kind.value == "prompt-based")


class _Iteration:
    """One iteration of a loop, as far as it is known before it runs."""

    def __init__(self, loop: Loop, talks: set[str]) -> None:
        inner = list(statements_in(loop.body))
        self._loop = loop
        self._talks = talks
        self._assigned = {name: it.place for it in inner for name in find_assigned_names(it)}
        self._agents = {it.target.name: it.place for it in inner if isinstance(it, AgentCall)}

    def find_dependence(self) -> Dependence | None:
        """Why the iterations depend on each other; `None` when they do not."""
        _, found = self._check_block(self._loop.body, frozenset([self._loop.name]))
        return found

    def _check_block(
        self, block: Block, known: frozenset[str]
    ) -> tuple[frozenset[str], Dependence | None]:
        """What has surely been assigned after a block, where `known` has before it.

        Agents that were made are in it as `@name`.
        """
        for statement in block:
            found = next(self._check_statement(statement, known), None)
            if found is None and isinstance(statement, Loop):
                _, found = self._check_block(statement.body, known | {statement.name})
            elif found is None and isinstance(statement, If):
                known, found = self._check_branches(statement, known)
            if found is not None:
                return known, found
            known |= _find_sure_assignments(statement)
        return known, None

    def _check_branches(
        self, statement: If, known: frozenset[str]
    ) -> tuple[frozenset[str], Dependence | None]:
        ends = [] if statement.branches[-1].condition is None else [known]
        for branch in statement.branches:
            end, found = self._check_block(branch.body, known)
            if found is not None:
                return known, found
            ends.append(end)
        return frozenset.intersection(*ends), None

    def _check_statement(self, statement: Statement, known: frozenset[str]) -> Iterator[Dependence]:
        """What in a statement itself depends on other iterations."""
        place = statement.place
        if isinstance(statement, Breakpoint | Exit):
            text, zh = _ORDERED[type(statement)]
            yield Dependence(place, f"line {place.line} {text}", f"第 {place.line} 行{zh}")
        for name in find_read_names(statement):
            yield from self._check_read(name, place, known)
        for branch in statement.branches if isinstance(statement, If) else ():
            for name in names_in_node(branch.condition):
                yield from self._check_read(name, branch.place, known)
        if isinstance(statement, AgentCall) and _may_talk(statement):
            yield _build_wait_dependence(place)
        for name in self._find_callable_agents(statement):
            yield from self._check_call(name, place, known)

    def _check_read(self, name: str, place: Place, known: frozenset[str]) -> Iterator[Dependence]:
        if name in self._assigned and name not in known:
            line = self._assigned[name].line
            yield Dependence(
                place,
                f"line {place.line} reads ${name}, which line {line} assigns for the next item",
                f"第 {place.line} 行读取 ${name}，而第 {line} 行为下一项赋值",
            )

    def _find_callable_agents(self, statement: Statement) -> set[str]:
        """The program's agents that a statement calls, or that its model may call."""
        agents = self._agents.keys() | self._talks
        if isinstance(statement, FunctionCall):
            return agents & {statement.name}
        if isinstance(statement, Prompt):
            return agents
        return agents & _tools(statement, agents) if isinstance(statement, AgentCall) else set()

    def _check_call(self, name: str, place: Place, known: frozenset[str]) -> Iterator[Dependence]:
        if name in self._talks:
            yield _build_wait_dependence(place)
        if name in self._agents and f"@{name}" not in known:
            line = self._agents[name].line
            yield Dependence(
                place,
                f"line {place.line} may call the agent {name!r}, which line {line} makes for the "
                "next item",
                f"第 {place.line} 行可能调用 agent {name}，而第 {line} 行为下一项创建它",
            )


def _tools(statement: AgentCall, agents: set[str]) -> set[str]:
    """The program's agents that are tools of an agent: all, unless it names its tools."""
    tools = next((it.node for it in statement.arguments if it.name == "tools"), None)
    if tools is None or tools.kind != "items" or any(it.kind != "text" for it in tools.parts):
        return agents
    if any("$" in it.value for it in tools.parts):
        return agents
    return {it.value for it in tools.parts}


def _find_sure_assignments(statement: Statement) -> frozenset[str]:
    """What a statement surely assigns itself."""
    target = target_of(statement)
    if target is None or target.append:
        return frozenset()
    agent = {f"@{target.name}"} if isinstance(statement, AgentCall) else set()
    return frozenset({target.name, *agent})


def _build_wait_dependence(place: Place) -> Dependence:
    return Dependence(
        place,
        f"line {place.line} may wait for the user",
        f"第 {place.line} 行可能等待用户输入",
    )


_ORDERED = {
    Breakpoint: ("is a breakpoint", "是断点"),
    Exit: ("may end the program", "可能结束程序"),
}
