"""The package keeps its size: few loose files, few rooms, one short import contract."""

from __future__ import annotations

import house


def test_few_files_lie_in_no_room() -> None:
    assert len(house.loose_files()) <= 8, house.loose_files()


def test_there_are_few_rooms() -> None:
    assert len(house.rooms()) <= 17, house.rooms()


def test_the_contract_is_short_and_names_every_room_once() -> None:
    named = [part for row in house.rows() for part in row]
    assert len(house.rows()) <= 10
    assert len(named) == len(set(named))
    modules = {name.removesuffix(".py") for name in house.loose_files()}
    assert set(named) == {*house.rooms(), *modules - {"__init__", "__main__"}}


def test_no_two_rooms_import_each_other_by_any_way() -> None:
    # `make lint` checks the order of the rows; this checks rooms that stand in the same row, too.
    below = {room: {b for a, b in house.imports() if a == room} for room, _ in house.imports()}
    for room in below:
        reached, left = set(), [room]
        while left:
            for other in below.get(left.pop(), ()):
                if other not in reached:
                    reached.add(other)
                    left.append(other)
        assert room not in reached, f"{room} imports itself through {sorted(below[room])}"


def test_every_room_says_what_it_is_in_one_sentence() -> None:
    for row in house.rows():
        for part in row:
            assert 20 <= len(house.sentence(part)) <= 100, part
