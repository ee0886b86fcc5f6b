"""Terraform's source text, made ready for its parser in one linear pass.

The parser's own expressions for heredocs take quadratic time, and it leaves their templates unread.
Here a heredoc becomes a quoted template whose first character is a line feed, which no template of
the language has; lines keep their numbers. Nesting is bounded before anything is built.
"""

from __future__ import annotations

import re

from orchestrator.errors import DefinitionError

MOST_BYTES = 500_000  # one file
# Characters that are in no text or comment: the parser takes up to 200 microseconds for each.
_MOST_CODE = 150_000
_MOST_NESTED = 60

_CODE = re.compile(
    r"""(?P<comment>\#[^\n]*|//[^\n]*|/\*)|(?P<heredoc><<-?[A-Za-z_][\w.-]*[ \t]*\n)"""
    r"""|(?P<quote>")|(?P<open>[({\[])|(?P<close>[)}\]])"""
)
_TEMPLATE = re.compile(r"""(?P<escape>\\.|\$\$\{|%%\{)|(?P<open>[$%]\{)|(?P<quote>")""", re.DOTALL)
_BODY = re.compile(r"""(?P<escape>\$\$\{|%%\{)|(?P<open>[$%]\{)|(?P<special>["\\])""")


def prepare_source(text: str, file: str) -> str:
    """The text with heredocs as quoted templates.

    Raises:
        DefinitionError: It is too large, nested too deeply, or ends within a text.
    """
    if len(text) > MOST_BYTES:
        raise DefinitionError(f"the file is larger than {MOST_BYTES:,} bytes", file=file)
    return _Scanner(text, file).scan()


class _Scanner:
    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.at = 0
        self.code = 0
        self.parts: list[str] = []
        # What is open, outermost first: a bracket, `"` for a template, `$` for code in one.
        self.opened: list[str] = []

    def fail(self, message: str, at: int | None = None) -> DefinitionError:
        line = self.text.count("\n", 0, self.at if at is None else at) + 1
        return DefinitionError(message, file=self.file, line=line)

    def scan(self) -> str:
        while self.at < len(self.text):
            if self.opened and self.opened[-1] == '"':
                self.scan_template()
            else:
                self.scan_code()
        if self.opened and self.opened[-1] in '"$':
            raise self.fail("the file ends within a text; close it")
        return "".join(self.parts)

    def keep(self, to: int) -> None:
        if not self.opened or self.opened[-1] != '"':
            self.code += to - self.at
            if self.code > _MOST_CODE:
                raise self.fail(f"the file has more than {_MOST_CODE:,} characters of code")
        self.parts.append(self.text[self.at : to])
        self.at = to

    def open(self, what: str, to: int) -> None:
        if len(self.opened) >= _MOST_NESTED:
            raise self.fail(f"this is nested deeper than {_MOST_NESTED} levels")
        self.opened.append(what)
        self.keep(to)

    def scan_code(self) -> None:
        found = _CODE.search(self.text, self.at)
        if found is None:
            self.keep(len(self.text))
            return
        self.keep(found.start())
        match found.lastgroup:
            case "comment":
                self.skip_comment(found)
            case "heredoc":
                self.rewrite_heredoc(found)
            case "quote":
                self.open('"', found.end())
            case "open":
                self.open(found[0], found.end())
            case _:
                if self.opened:
                    self.opened.pop()
                self.keep(found.end())

    def skip_comment(self, found: re.Match[str]) -> None:
        # Comments may hold anything; what stays of them are their lines.
        end = found.end()
        if found[0] == "/*":
            end = self.text.find("*/", found.end()) + 2
            if end < 2:
                raise self.fail("a comment (/*) does not end; add */")
        self.parts.append("\n" * self.text.count("\n", self.at, end))
        self.at = end

    def scan_template(self) -> None:
        found = _TEMPLATE.search(self.text, self.at)
        if found is None:
            raise self.fail('a text does not end; add "')
        if found.lastgroup == "open":
            self.open("$", found.end())
        elif found.lastgroup == "quote":
            self.opened.pop()
            self.keep(found.end())
        else:
            self.keep(found.end())

    def rewrite_heredoc(self, found: re.Match[str]) -> None:
        mark = found[0].strip()
        name = mark.lstrip("<-")
        lines: list[str] = []
        at = found.end()
        while at < len(self.text):
            end = self.text.find("\n", at)
            end = len(self.text) if end < 0 else end
            line = self.text[at:end]
            if line.strip() == name:
                body = _unindent(lines) if mark.startswith("<<-") else lines
                # The line feed before the body stands for the one after the mark.
                self.parts.append('"\n' + self.quote("".join(f"{it}\n" for it in body)) + '"')
                self.at = end
                return
            lines.append(line)
            at = end + 1
        raise self.fail(f"the text {mark} does not end; add a line {name}", found.start())

    def quote(self, body: str) -> str:
        # Quotes and backslashes mean themselves in a heredoc, but in the code of its templates.
        parts = []
        at = 0
        while found := _BODY.search(body, at):
            parts.append(body[at : found.start()])
            at = found.end()
            if found.lastgroup == "special":
                parts.append("\\" + found[0])
            elif found.lastgroup == "open":
                code = _Scanner(body, self.file)
                code.opened, code.at = [*self.opened, "$"], found.start()
                at = code.skip_code(found.end())
                parts.append(body[found.start() : at])
            else:
                parts.append(found[0])
        return "".join([*parts, body[at:]])

    def skip_code(self, at: int) -> int:
        """The end of the template's code that begins at `at`."""
        depth = len(self.opened)
        self.at = at
        while len(self.opened) >= depth:
            if self.at >= len(self.text):
                raise DefinitionError("a template (${) does not end", file=self.file)
            if self.opened[-1] == '"':
                self.scan_template()
            else:
                self.scan_code()
        return self.at


def _unindent(lines: list[str]) -> list[str]:
    # HCL: the least number of spaces at the start of a line that is not empty is taken from all.
    most = min((len(it) - len(it.lstrip(" \t")) for it in lines if it.strip()), default=0)
    return [it[most:] for it in lines]
