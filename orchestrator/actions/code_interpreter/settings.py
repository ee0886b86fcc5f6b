"""The limits of the code interpreter."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.errors import DefinitionError
from orchestrator.support.spelling import did_you_mean, to_camel

_MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeInterpreterSettings:
    """What one execution, and one session, may use."""

    seconds: float = 30.0  # wall-clock time of one execution, from when its sandbox is ready
    cpu_seconds: int = 30  # processor time of one execution, of all its threads together
    memory_bytes: int = 1024 * _MEBIBYTE  # address space of one execution
    # Threads of one execution; approximate, and for root without namespaces no limit
    threads: int = 32
    # Size of all files of a session together, and of the largest one
    scratch_bytes: int = 256 * _MEBIBYTE
    scratch_files: int = 1000  # how many files and folders a session may have
    # How much of the standard output is shown, and of the standard error; the middle of more is
    # left out
    output_bytes: int = 20_000
    files: int = 20  # how many files an execution may return
    file_bytes: int = 1_000_000  # the largest file that is returned (Bedrock: the most there is)
    # How many sessions keep their files; those that were not used for the longest time lose them
    sessions: int = 32
    parallel: int = 4  # how many executions run at the same time; others wait for their turn
    packages: bool = True  # whether packages installed beside this one can be imported, and read

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "packages":
                if not isinstance(value, bool):
                    raise DefinitionError(f"packages must be True or False, not {value!r}")
                continue
            kinds = int | float if field.name == "seconds" else int
            if isinstance(value, bool) or not isinstance(value, kinds) or not 0 < value < 1 << 50:
                raise DefinitionError(
                    f"the code interpreter's {field.name} is {value!r}; give a number above 0"
                )

    @classmethod
    def from_texts(cls, texts: Mapping[str, str]) -> CodeInterpreterSettings:
        """Settings from a definition's `parentActionGroupSignatureParams`: `{"seconds": "10"}`.

        Raises:
            DefinitionError: There is no such setting, or its value is no number.
        """
        names = {to_camel(field.name): field.name for field in dataclasses.fields(cls)}
        values: dict[str, float | bool] = {}
        for name, text in texts.items():
            if name not in names:
                raise DefinitionError(
                    f"the code interpreter has no setting {name!r}{did_you_mean(name, names)}"
                )
            values[names[name]] = _value(name, text)
        return cls(**values)  # type: ignore[arg-type]


def _value(name: str, text: str) -> float | bool:
    try:
        if name == "packages":
            return {"true": True, "false": False}[text]
        return float(text) if name == "seconds" else int(text)
    except (KeyError, ValueError):
        wanted = "true or false" if name == "packages" else "a number"
        raise DefinitionError(
            f"the code interpreter's setting {name!r} is {text!r}; write {wanted}"
        ) from None
