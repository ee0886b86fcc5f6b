"""What the documentation shows of the structure is what the code has."""

from __future__ import annotations

import re

import house
import pages
import pytest

FILES = re.compile(r"`([\w./-]+(?:\.py|/))`")


@pytest.mark.parametrize("page", (pages.PICTURE, *pages.PAGES), ids=lambda page: page.name)
def test_the_page_is_not_out_of_date(page) -> None:
    wanted = pages.build()[page]
    assert page.read_text(encoding="utf-8") == wanted, "run `python tests/house/pages.py`"


def test_every_file_that_the_page_names_is_there() -> None:
    text = (house.ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(FILES.findall(text))
    assert len(named) > 30
    assert [it for it in named if not _exists(it)] == []


def _exists(name: str) -> bool:
    return (house.PACKAGE / name).exists() or (house.ROOT / name).exists()


def test_the_picture_has_every_room_and_an_arrow_from_each_door() -> None:
    text = pages.picture()
    assert all(f">{room}/<" in text for room in house.rooms())
    assert text.count("marker-end") >= len(house.rooms())
