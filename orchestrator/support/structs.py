"""Structs: dataclasses with slots that are quick to define.

`@dataclass(frozen=True, slots=True)` writes and compiles six methods for each class, and those of
70 classes were a third of what `from orchestrator import Agent` cost. Of a struct only `__init__`
is compiled, and all structs share the other methods: one takes a fourth of the instructions.
`fields`, `replace`, `asdict` and `field(...)` of `dataclasses` work as ever. Comparing and hashing
are slower than a dataclass's own; no turn does it often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from reprlib import recursive_repr
from typing import Any, NoReturn, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(field_specifiers=(field,))
def struct(
    *, frozen: bool = False, eq: bool = True, kw_only: bool = False
) -> Callable[[type[T]], type[T]]:
    """Makes a class what `dataclass(slots=True, ...)` with the same arguments makes of it."""
    shared: dict[str, Any] = {"__repr__": _repr}
    if eq:
        shared |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
    if frozen:
        shared |= _FROZEN

    def define(cls: type[T]) -> type[T]:
        own = {name for name in shared if name in vars(cls)}
        made = dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)(cls)
        for name in shared.keys() - own:
            setattr(made, name, shared[name])
        setattr(made, "__init__", _compile_init(made, frozen))  # noqa: B010
        return made

    return define


def _compile_init(cls: Any, frozen: bool) -> Any:
    """Its `__init__`. Nothing but names of fields comes into the text, values are its globals."""
    known: dict[str, Any] = {"_MISSING": MISSING}
    parameters, body = ["self"], []
    for it in sorted(fields(cls), key=lambda it: bool(it.kw_only)):
        if it.init:
            if it.kw_only and "*" not in parameters:
                parameters.append("*")
            parameters.append(_write_parameter(it, known))
        if it.init or it.default_factory is not MISSING:
            value = _write_value(it, known)
            if frozen:
                # The slot's own setter, which the refusing `__setattr__` does not reach.
                known[f"_set_{it.name}"] = getattr(cls, it.name).__set__
                body.append(f"_set_{it.name}(self, {value})")
            else:
                body.append(f"self.{it.name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(body or ["pass"]), known)
    init = known["__init__"]
    init.__module__, init.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    init.__annotations__ = {it.name: it.type for it in fields(cls) if it.init} | {"return": None}
    return init


def _write_parameter(it: Field[Any], known: dict[str, Any]) -> str:
    if it.default_factory is not MISSING:
        return f"{it.name}=_MISSING"
    if it.default is MISSING:
        return it.name
    known[f"_default_{it.name}"] = it.default
    return f"{it.name}=_default_{it.name}"


def _write_value(it: Field[Any], known: dict[str, Any]) -> str:
    if it.default_factory is MISSING:
        return it.name
    known[f"_new_{it.name}"] = it.default_factory
    made = f"_new_{it.name}()"
    return f"{made} if {it.name} is _MISSING else {it.name}" if it.init else made


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{it.name}={getattr(self, it.name)!r}" for it in fields(self) if it.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _compared(self: Any) -> Iterator[Any]:
    return (getattr(self, it.name) for it in fields(self) if it.compare)


def _eq(self: Any, other: object) -> bool:
    if type(other) is not type(self):
        return NotImplemented  # type: ignore[no-any-return]
    return tuple(_compared(self)) == tuple(_compared(other))


def _hash(self: Any) -> int:
    return hash(tuple(_compared(self)))


def _refuse_change(self: Any, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_removal(self: Any, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, it.name) for it in fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for it, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, it.name, value)


_FROZEN = {
    "__setattr__": _refuse_change,
    "__delattr__": _refuse_removal,
    # Copies and pickles are made with these, past the refusal.
    "__getstate__": _getstate,
    "__setstate__": _setstate,
}
