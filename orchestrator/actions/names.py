"""What names and texts of action groups may be.

Names follow Bedrock's pattern; texts that a model will read may not hide anything from the person
who reviews them.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from orchestrator.errors import DefinitionError

_NAME = re.compile(r"(?:[0-9a-zA-Z][_-]?){1,100}")  # (Bedrock: `Name` of bedrock-agent)

_HIDDEN = (
    # Controls, soft hyphen, fillers, zero-width and bidirectional marks, private use, tags.
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ue000-\uf8ff\ufeff\uffa0"
    "\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\U000f0000-\U0010ffff]"
    # Joiners belong to some scripts and to emoji; after ASCII or another joiner they only hide.
    "|(?:^|(?<=[\x00-\x7f\u200c\u200d]))[\u200c\u200d]"
    # One variation selector chooses an emoji's look; a row of them carries hidden data.
    "|(?<=[\ufe00-\ufe0f])[\ufe00-\ufe0f]"
)


# Operations of one action group (Bedrock: 11 for all of an agent); each is described to a model in
# every prompt.
MOST_OPERATIONS = 500


def check_count(count: int, what: str) -> None:
    """Raises `DefinitionError` when `what` has too many operations."""
    if count > MOST_OPERATIONS:
        raise DefinitionError(
            f"{what} has more than {MOST_OPERATIONS} operations; leave out what the agent does not "
            "need"
        )


# Names of operations of other systems have characters that tool names may not have.
def slug(text: str) -> str:
    """`text` as a valid name: other characters become `_`, at most one separator in a row."""
    cleaned = re.sub(r"[^0-9a-zA-Z_-]+", "_", text)
    cleaned = re.sub(r"([_-])[_-]+", r"\1", cleaned).strip("_-")
    return cleaned[:100]


def check_name(name: object, kind: str) -> str:
    """Returns the name of a `kind`; `DefinitionError` when Bedrock's pattern forbids it."""
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    advice = f"; try {slug(name)!r}" if isinstance(name, str) and slug(name) else ""
    raise DefinitionError(
        f"the {kind} name {name!r} is not possible: letters and digits, each followed by at most "
        f"one '_' or '-', up to 100 of them{advice}"
    )


@cache
def _compile_hidden_pattern() -> re.Pattern[str]:
    return re.compile(_HIDDEN)


def check_text(text: object, what: str) -> str:
    """Returns the text `what`; `DefinitionError` when it is none, or hides a character."""
    if text is None:
        return ""
    if not isinstance(text, str):
        raise DefinitionError(f"{what} must be a text, not {type(text).__name__}")
    found = _compile_hidden_pattern().search(text)
    if found is None:
        return text
    code = ord(found.group()[0])
    name = unicodedata.name(chr(code), "a control character")
    raise DefinitionError(
        f"{what} holds an invisible character, U+{code:04X} ({name}), at position "
        f"{found.start()}; remove it: a model would read what a reviewer cannot see"
    )
