"""Writes what documentation shows of the structure: the picture, and the table of rooms.

    python tests/house/pages.py

Both come from the import contract in pyproject.toml, the rooms' own docstrings and their imports;
a test fails when a page is out of date.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.sax.saxutils import escape

import house

PICTURE = house.ROOT / "docs" / "architecture.svg"
PAGES = (house.ROOT / "CONTRIBUTING.md", house.ROOT / "docs" / "architecture.md")
_TABLE = re.compile(r"(?<=<!-- rooms -->\n).*?(?=<!-- /rooms -->)", re.DOTALL)

_WIDTH, _BOX, _GAP, _ROW = 920, 150, 22, 74
_HEIGHT = 38


def build() -> dict[Path, str]:
    """Every page that this writes, as it has to be."""
    pages = {PICTURE: picture()}
    for page in PAGES:
        pages[page] = _TABLE.sub(lambda _: table(), page.read_text(encoding="utf-8"))
    return pages


def table() -> str:
    """The rooms, a row each, in the contract's order."""
    lines = ["| room | what it is |", "|---|---|"]
    for row in house.rows():
        for part in row:
            name = f"`{part}/`" if part in house.rooms() else f"`{part}.py`"
            lines.append(f"| {name} | {house.sentence(part)} |")
    return "\n".join(lines) + "\n"


def picture() -> str:
    """The rooms from top to bottom, and which imports which (SVG)."""
    places = _places()
    height = len(house.rows()) * _ROW + 16
    arrows = [_arrow(places[a], places[b]) for a, b in sorted(_direct())]
    boxes = [_box(part, *place) for part, place in places.items()]
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img"'
            ' font-family="system-ui, sans-serif" font-size="15">',
            "<title>The rooms of orchestrator, and which imports which</title>",
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"'
            ' markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="#8a94a6"/></marker>'
            "</defs>",
            f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
            *arrows,
            *boxes,
            "</svg>\n",
        )
    )


def _places() -> dict[str, tuple[int, int]]:
    places = {}
    for number, row in enumerate(house.rows()):
        width = len(row) * _BOX + (len(row) - 1) * _GAP
        left = (_WIDTH - width) // 2
        for column, part in enumerate(row):
            places[part] = (left + column * (_BOX + _GAP), 12 + number * _ROW)
    return places


def _below(upper: str, lower: str) -> bool:
    ranks = {part: number for number, row in enumerate(house.rows()) for part in row}
    return ranks[upper] < ranks[lower]


def _direct() -> set[tuple[str, str]]:
    # The picture would be all lines with imports that others imply, and with those of the lowest
    # row, which every room uses.
    ground = house.rows()[-1]
    pairs = {(a, b) for a, b in house.imports() if _below(a, b) and b not in ground}
    reach: dict[str, set[str]] = {}

    def reached(part: str) -> set[str]:
        if part not in reach:
            below = {b for a, b in pairs if a == part}
            reach[part] = below.union(*map(reached, below)) if below else set()
        return reach[part]

    return {
        (a, b)
        for a, b in pairs
        if not any(b in reached(other) for x, other in pairs if x == a and other != b)
    }


def _box(part: str, x: int, y: int) -> str:
    middle, base = x + _BOX // 2, y + _HEIGHT // 2 + 5
    name = f"{part}/" if part in house.rooms() else f"{part}.py"
    return (
        f'<rect x="{x}" y="{y}" width="{_BOX}" height="{_HEIGHT}" rx="8" fill="#eef3fb"'
        f' stroke="#4a6fa5"/><text x="{middle}" y="{base}" text-anchor="middle" fill="#1c2733">'
        f"{escape(name)}</text>"
    )


def _arrow(upper: tuple[int, int], lower: tuple[int, int]) -> str:
    start = upper[0] + _BOX // 2, upper[1] + _HEIGHT
    end = lower[0] + _BOX // 2, lower[1] - 2
    bend = (start[1] + end[1]) // 2
    path = f"M{start[0]} {start[1]}C{start[0]} {bend} {end[0]} {bend} {end[0]} {end[1]}"
    return f'<path d="{path}" fill="none" stroke="#8a94a6" marker-end="url(#head)"/>'


if __name__ == "__main__":
    for page, text in build().items():
        page.write_text(text, encoding="utf-8")
