"""Terraform's source text → blocks and attributes, with their lines; nothing is evaluated here.

Needs the extra `terraform`: python-hcl2, whose grammar is loaded at the first file. It takes about
8 seconds for a megabyte, so sizes are bounded before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from orchestrator.errors import DefinitionError, DependencyFailed
from orchestrator.support.lazy_imports import describe_missing_extra
from orchestrator.transfer.terraform.hcl_scan import prepare_source


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """An expression: a node of the parser's tree, and where it is."""

    node: Any
    file: str
    line: int


@dataclass(slots=True, eq=False)
class Block:
    """A block, such as `resource "aws_lambda_function" "claims" { … }`; a file is one, too."""

    kind: str
    labels: tuple[str, ...]
    file: str
    line: int
    attributes: dict[str, Expression] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)

    def find_blocks(self, kind: str) -> list[Block]:
        """The inner blocks of a kind."""
        return [it for it in self.blocks if it.kind == kind]


def parse_hcl(text: str, file: str) -> Block:
    """The attributes and blocks of a source file.

    Raises:
        DefinitionError: It is not Terraform's language, too large or nested too deeply.
        DependencyFailed: The extra is not installed.
    """
    prepared = prepare_source(text.replace("\r\n", "\n"), file)
    return _read_body(_parse_tree(prepared, file).children[0], Block("", (), file, 1))


def _parse_tree(text: str, file: str) -> Any:
    try:
        import hcl2
        from lark.exceptions import LarkError
    except ImportError as error:
        missing = describe_missing_extra(
            "reading Terraform's sources needs", "terraform", error.name
        )
        raise DependencyFailed(
            f"{missing}; or import the JSON of `terraform show -json`"
        ) from error
    try:
        return hcl2.parses_to_tree(text)
    except LarkError as error:
        line = getattr(error, "line", None)
        column = getattr(error, "column", None)
        known = isinstance(line, int) and line > 0
        raise DefinitionError(
            "this is not Terraform's language",
            file=file,
            line=line if known else None,
            column=column if known else None,
        ) from None
    except RecursionError:
        raise DefinitionError("this is nested too deeply", file=file) from None


def iter_nodes(node: Any) -> Iterator[Any]:
    """The children of a node that are no white space."""
    return (it for it in node.children if name_of(it) not in ("new_line_or_comment", "COMMA"))


def unwrap(node: Any) -> Any:
    """A node without the parentheses around it."""
    while name_of(node) == "expr_term":
        [node] = [it for it in iter_nodes(node) if name_of(it) not in ("LPAR", "RPAR")]
    return node


def name_of(node: Any) -> str:
    """What a node is: the name of its rule, or of its token."""
    return str(getattr(node, "type", None) or node.data)


def _read_body(body: Any, block: Block) -> Block:
    for node in body.children:
        match name_of(node):
            case "attribute":
                name, _, value = [it for it in iter_nodes(node)]
                block.attributes[read_name(name)] = Expression(value, block.file, line_of(node))
            case "block":
                *names, _, inner, _ = iter_nodes(node)
                kind, *labels = map(read_name, names)
                block.blocks.append(
                    _read_body(inner, Block(kind, tuple(labels), block.file, line_of(node)))
                )
    return block


def line_of(node: Any) -> int:
    """The line in which a node begins."""
    return int(getattr(node.meta, "line", 0) or 0) if hasattr(node, "meta") else int(node.line)


def read_name(node: Any) -> str:
    """The text of an identifier or label."""
    return "".join(map(str, node.scan_values(lambda it: True))).strip('"')


_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_SHORT = {"n": "\n", "r": "\r", "t": "\t"}


def unescape(text: str) -> str:
    """The characters that a part of a quoted template stands for."""

    def replace(found: re.Match[str]) -> str:
        code = found[1] or found[2]
        if not code:
            return _SHORT.get(found[3], found[3])
        number = int(code, 16)
        is_half = 0xD800 <= number <= 0xDFFF
        return found[0] if is_half or number > 0x10FFFF else chr(number)

    return _ESCAPE.sub(replace, text)
