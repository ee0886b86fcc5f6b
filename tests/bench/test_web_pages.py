"""The pages that `make bench-web` measures are those of the workbench, as it renders them."""

from __future__ import annotations

from bench.web import CHARACTERS, ORIGINS, STEPS, build_prompt_page, build_turn_page


def test_the_prompt_has_all_of_its_origins() -> None:
    page, text = build_prompt_page()
    html = page(1)
    assert len(text) == CHARACTERS
    assert html.count('<span class="o') >= ORIGINS


def test_each_step_is_on_the_first_page_or_on_a_further_one() -> None:
    page, text = build_turn_page()
    assert len(text.splitlines()) == STEPS
    first, last = page(1), page(STEPS)
    assert 'id="more" href="?from=' in first and 'id="more"' not in last
    assert f'/steps/{STEPS}"' in last
