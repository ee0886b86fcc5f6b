"""Which operation a method and a path mean.

Paths are compared as they were sent, piece by piece between slashes: a slash inside a label is
percent-encoded (an ARN is one label), and a slash at the end is a last, empty piece, because
`POST /agents/ID/` and `POST /agents/ID` are two operations. Labels are never empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl


@dataclass(frozen=True, slots=True)
class Route:
    """An operation and where it lies.

    Attributes:
        service: boto3's name of the service.
        operation: The operation's name.
        labels: The names of the labels in its path, in order.
        fixed: What its query string must have.
    """

    service: str
    operation: str
    labels: tuple[str, ...] = ()
    fixed: frozenset[tuple[str, str]] = frozenset()


@dataclass(slots=True)
class _Node:
    """What may follow the pieces of a path so far."""

    pieces: dict[str, _Node] = field(default_factory=dict)
    label: _Node | None = None
    rest: list[Route] = field(default_factory=list)
    here: list[Route] = field(default_factory=list)


class Routes:
    """A routing table."""

    def __init__(self, operations: Iterable[tuple[str, str, str, str]]) -> None:
        """Makes the table of operations: service, name, method and `requestUri`, in order."""
        self._methods: dict[str, _Node] = {}
        for service, operation, method, uri in operations:
            self._add(service, operation, self._methods.setdefault(method, _Node()), uri)

    def _add(self, service: str, operation: str, node: _Node, uri: str) -> None:
        path, _, query = uri.partition("?")
        labels: list[str] = []
        greedy = False
        for piece in path.split("/")[1:]:
            if not piece.startswith("{"):
                node = node.pieces.setdefault(piece, _Node())
                continue
            greedy = piece.endswith("+}")
            labels.append(piece.strip("{+}"))
            if not greedy:
                node.label = node.label or _Node()
                node = node.label
        fixed = frozenset(parse_qsl(query, keep_blank_values=True))
        found = node.rest if greedy else node.here
        found.append(Route(service, operation, tuple(labels), fixed))
        found.sort(key=lambda route: -len(route.fixed))

    def match(
        self, method: str, path: str, query: str = ""
    ) -> tuple[list[Route], tuple[str, ...]] | None:
        """The operations that a request can mean, and the texts of their labels as they were sent.

        There are two when two services have the same path. A path that means nothing is tried
        again with a slash more, or less, at its end.
        """
        node = self._methods.get(method)
        if node is None or not path.startswith("/"):
            return None
        found = _find_routes(node, path.split("/"), 1, (), query)
        if found is None and not path.endswith("//"):
            other = path[:-1] if path.endswith("/") else f"{path}/"
            found = _find_routes(node, other.split("/"), 1, (), query)
        return found


def _find_routes(
    node: _Node, pieces: list[str], at: int, labels: tuple[str, ...], query: str
) -> tuple[list[Route], tuple[str, ...]] | None:
    """Where the pieces from `at` on lead to; a literal piece goes before a label."""
    if at == len(pieces):
        return _filter_by_query(node.here, labels, query)
    piece = pieces[at]
    literal = node.pieces.get(piece)
    if literal is not None:
        found = _find_routes(literal, pieces, at + 1, labels, query)
        if found is not None:
            return found
    if not piece:
        return None
    if node.label is not None:
        found = _find_routes(node.label, pieces, at + 1, (*labels, piece), query)
        if found is not None:
            return found
    return _filter_by_query(node.rest, (*labels, "/".join(pieces[at:])), query)


def _filter_by_query(
    routes: list[Route], labels: tuple[str, ...], query: str
) -> tuple[list[Route], tuple[str, ...]] | None:
    fitting = [route for route in routes if _is_match(route, query)]
    return (fitting, labels) if fitting else None


def _is_match(route: Route, query: str) -> bool:
    return not route.fixed or route.fixed <= set(parse_qsl(query, keep_blank_values=True))
