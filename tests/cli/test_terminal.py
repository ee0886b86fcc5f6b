"""Word wrapping while a text streams, and texts that a terminal would obey."""

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.cli.findings import format_path
from orchestrator.cli.terminal import Terminal, WordWrap, clean, join_facts, shorten

TEXTS = st.text(alphabet="ab \n\t", max_size=200)


def wrapped(pieces, width):
    wrap = WordWrap(width)
    return "".join([wrap.feed(piece) for piece in pieces]) + wrap.flush()


@given(TEXTS, st.integers(5, 30))
def test_no_word_is_lost_and_none_is_cut(text, width):
    assert wrapped([text], width).split() == text.split()


@given(TEXTS, st.integers(5, 30), st.integers(0, 200))
def test_where_the_stream_is_cut_does_not_matter(text, width, cut):
    assert wrapped([text[:cut], text[cut:]], width) == wrapped([text], width)


@given(st.lists(st.text(alphabet="abc", min_size=1, max_size=5), max_size=40))
def test_lines_fit(words):
    lines = wrapped([" ".join(words)], 10).split("\n")
    assert all(len(line) <= 10 and line == line.strip() for line in lines)


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left(text):
    left = set(clean(text)) - {"\n", "\t"}
    assert not any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in left)
    assert "\n" not in shorten(text, 20) and len(shorten(text, 20)) <= 20


@given(st.integers(20, 60))
def test_a_fact_stays_on_one_line(width):
    terminal, facts = Terminal(), ["1,366 → 35 tokens", "3 ms", "2 model calls", "57.9 s"]
    terminal.out.width = width
    with terminal.out.capture() as shown:
        terminal.block(join_facts(facts))
    lines = [line.strip("· ") for line in shown.get().splitlines()]
    assert [it for line in lines for it in line.split(" · ")] == facts
    assert all(len(line) <= width for line in lines)


@given(st.lists(st.text(alphabet="abc", min_size=1, max_size=9), min_size=1), st.integers(30, 60))
def test_a_line_that_goes_on_hangs(words, width):
    terminal = Terminal()
    terminal.out.width = width
    with terminal.out.capture() as shown:
        terminal.block(" ".join(words), 2, hanging=6)
    first, *rest = shown.get().splitlines()
    assert [len(it) - len(it.lstrip()) for it in (first, *rest)] == [2, *[8] * len(rest)]
    assert shown.get().split() == words
    assert all(len(line) <= width for line in (first, *rest))


def test_a_path_is_shown_from_where_one_is_or_from_home(place, monkeypatch):
    monkeypatch.setenv("HOME", str(place / "home"))
    (place / "work").mkdir()
    monkeypatch.chdir(place / "work")
    assert format_path(place / "work" / "agent.yaml") == "agent.yaml"
    assert format_path(place / "home" / "models" / "a.gguf") == "~/models/a.gguf"
    assert format_path(place / "other") == str(place / "other")
