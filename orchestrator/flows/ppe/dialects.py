"""The generations of the language, and templates of other styles.

Python's format strings and Go's templates are translated to Jinja2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from orchestrator.flows.tree import NAME, ScriptError


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a script may write. Without a generation it may write what any has."""

    bare_regexes: bool = True  # whether regular expressions need no brackets (before 0.7)
    immediate: str = "#!"  # the signs that have a text rendered at once: `#` before 0.9, `!` since
    edits: bool = True  # whether `#:` and `#+` edit messages (since 0.9)

    def is_immediate(self, text: str) -> bool:
        """Whether a text begins with a sign to render it at once."""
        if text[:1] not in ("#", "!") or text[:1] not in self.immediate:
            return False
        if text[0] == "#" and text[1:2] in (" ", "#"):  # a heading
            return False
        return not (self.edits and text[0] == "#" and text[1:2] in (":", "+", "["))


def dialect_of(value: Any) -> Dialect:
    """The dialect that front matter names: such as `0.6` or `"0.9"`."""
    if value is None:
        return Dialect()
    found = re.fullmatch(r"v?(\d+)\.(\d+)(?:\.[\dx]+)?", str(value))
    if found is None:
        raise ScriptError(
            f"the dialect {str(value)!r} is none; write a version, such as '0.6' or '0.9'",
            f"{str(value)!r} 不是有效的 dialect；请写版本号，如 '0.6' 或 '0.9'",
        )
    version = (int(found[1]), int(found[2]))
    if version < (0, 6):
        raise ScriptError(
            f"the dialect {str(value)!r} is too old; scripts are read since '0.6'",
            f"dialect {str(value)!r} 过旧；支持 '0.6' 及以后的版本",
        )
    since_9 = version >= (0, 9)
    return Dialect(version < (0, 7), "!" if since_9 else "#", since_9)


STYLES = {
    **dict.fromkeys(("hf", "huggingface", "default", "jinja2"), "hf"),
    **dict.fromkeys(("fstring", "python", "f-string", "langchain"), "fstring"),
    **dict.fromkeys(("golang", "localai", "ollama"), "golang"),
}
"""The names of styles, and which style each means."""

_TRIPLE = re.compile(r"\{\{\{([^{}]*)\}\}\}")
_FIELD = re.compile(rf"\{{\{{|\}}\}}|\{{\s*({NAME}(?:\.\w+|\[[^\[\]{{}}]*\])*)\s*\}}|[{{}}]")
_GO = re.compile(r"\{\{(-?)([^{}]*)\}\}")
_KEY = re.compile(r"\[(?!-?\d+\])([^\[\]]*)\]")
_GO_PATH = r"\.\w+(?:\.\w+)*"
_GO_WORD = re.compile(rf"(?P<word>if|else if|range|with)?\s*(?P<path>{_GO_PATH}|\.)")


def as_jinja(text: str, style: str) -> str:
    """A template's text as Jinja2; Go's may have fields, `if`, `else`, `range` and `end`."""
    if style == "fstring":
        return _FIELD.sub(_field, text)
    if style == "golang":
        return _from_go(text)
    return _TRIPLE.sub(r"{{\1}}", text)


def _field(found: re.Match[str]) -> str:
    """A field, or a brace that is text: such must begin no tag of Jinja2."""
    if not found[1]:
        return f"{{{{ '{found[0][0]}' }}}}"
    field = _KEY.sub(lambda key: f"[{key[1]!r}]", found[1])
    return f"{{{{ {field} }}}}"


def _from_go(text: str) -> str:
    open_blocks: list[str] = []

    def tag(found: re.Match[str]) -> str:
        before, words = found.groups()
        after = "-" if words.endswith("-") else ""
        inner = _go_tag(words.removesuffix("-"), open_blocks)
        kind = "{%" if inner.startswith("%") else "{{"
        end = "%}" if kind == "{%" else "}}"
        return f"{kind}{before} {inner.removeprefix('%')} {after}{end}"

    template = _GO.sub(tag, text)
    if open_blocks:
        raise ScriptError("a block of Go's template has no {{end}}", "Go 模板的块缺少 {{end}}")
    return template


def _go_tag(words: str, open_blocks: list[str]) -> str:
    words = " ".join(words.split())
    if words == "end" and open_blocks:
        return f"%end{open_blocks.pop()}"
    if words == "else" and open_blocks:
        return "%else"
    found = _GO_WORD.fullmatch(words)
    word = found["word"] if found else None
    if found is None or word == "with" or (found["path"] == "." and "for" not in open_blocks):
        raise ScriptError(
            f"{words!r} of Go's templates is not understood; write templates of Jinja2",
            f"无法识别 Go 模板的 {words!r}；请使用 Jinja2 模板",
        )
    path = found["path"].removeprefix(".") or "item"
    if word == "if":
        open_blocks.append("if")
        return f"%if {path}"
    if word == "range":
        open_blocks.append("for")
        return f"%for item in {path}"
    return f"%elif {path}" if word else path
