"""A struct is what a dataclass with slots is, for whoever uses one."""

import copy
import inspect
import pickle
from dataclasses import (
    FrozenInstanceError,
    asdict,
    dataclass,
    field,
    fields,
    is_dataclass,
    replace,
)
from typing import Any

import pytest

from orchestrator.support.structs import struct


def _both(**settings: bool) -> list[Any]:
    def define(decorate: Any) -> Any:
        @decorate
        class Tea:
            """A tea."""

            name: str
            grams: float = 2.5
            notes: list[str] = field(default_factory=list)
            secret: str = field(default="", repr=False, compare=False)
            upper: str = field(init=False, compare=False)
            cups: list[str] = field(init=False, default_factory=list)

            def __post_init__(self) -> None:
                object.__setattr__(self, "upper", self.name.upper())

        return Tea

    return [define(struct(**settings)), define(dataclass(slots=True, **settings))]


SETTINGS = [{}, {"frozen": True}, {"eq": False}, {"kw_only": True}]


@pytest.mark.parametrize("settings", SETTINGS)
def test_it_is_made_shown_and_taken_apart_like_a_dataclass(settings: dict[str, bool]) -> None:
    mine, theirs = _both(**settings)
    shown = []
    for kind in (mine, theirs):
        one = kind(name="sencha", secret="s")
        other = replace(kind(name="assam", notes=["malt"]), grams=3.0)
        shown.append([repr(one), repr(other), asdict(other), one.secret, one.upper])
        shown[-1] += [is_dataclass(kind), kind.__match_args__, hasattr(one, "__dict__")]
        shown[-1] += [[(it.name, it.type, it.kw_only) for it in fields(kind)], kind.__slots__]
        parameters = inspect.signature(kind).parameters.values()
        shown[-1] += [[(it.name, it.kind, it.annotation) for it in parameters]]
        assert kind(name="a").notes is not kind(name="a").notes
        with pytest.raises(TypeError, match=r"__init__\(\) missing 1 required .* 'name'"):
            kind()
    assert shown[0] == shown[1]


@pytest.mark.parametrize("settings", SETTINGS)
def test_it_is_compared_and_hashed_like_a_dataclass(settings: dict[str, bool]) -> None:
    found = []
    for kind in _both(**settings):
        one, same, other = (kind(name=it, notes=(), secret=it) for it in "aab")
        one.cups.append("big")
        found.append([one == one, one == same, same == kind(name="a", notes=(), secret="x")])
        found[-1] += [same == other, same == ("a", 2.5, (), [])]
        found[-1] += [kind.__hash__ is None, kind.__hash__ is object.__hash__]
    assert found[0] == found[1]


def test_a_frozen_one_has_a_hash_refuses_changes_and_can_be_copied() -> None:
    @struct(frozen=True)
    class Point:
        """A place."""

        x: int
        y: int = 0

    one = Point(1)
    assert {one, Point(1), Point(1, 2)} == {Point(1, 2), one}
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        one.x = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del one.x
    assert copy.copy(one) == copy.deepcopy(one) == one
    Point.__qualname__ = "Point"
    Point.__module__ = __name__
    globals()["Point"] = Point
    try:
        assert pickle.loads(pickle.dumps(one)) == one
    finally:
        del globals()["Point"]


def test_a_struct_takes_over_the_fields_of_another() -> None:
    @struct()
    class Node:
        """A node."""

        line: int

    @struct()
    class Leaf(Node):
        """A node without others."""

        text: str = "x"

        def __repr__(self) -> str:
            return "a leaf"

    assert (Leaf(3).line, Leaf(3).text, Leaf(3) == Leaf(3), Leaf(3) == Node(3)) == (
        3,
        "x",
        True,
        False,
    )
    assert repr(Leaf(3)) == "a leaf"
    assert repr(Node(3)).endswith("Node(line=3)")


def test_one_that_holds_itself_can_be_shown() -> None:
    @struct()
    class Box:
        """A box."""

        inside: Any = None

    box = Box()
    box.inside = box
    assert repr(box).endswith("Box(inside=...)")
