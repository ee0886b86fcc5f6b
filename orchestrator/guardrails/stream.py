"""An answer that is checked while it streams: nothing is shown before it was checked.

The text so far is checked as a whole at intervals (Bedrock: `applyGuardrailInterval`). What may
then be shown ends a little before the end of the text, because what stands there may yet become
a finding: `john.doe` becomes an e-mail address. How much is held back depends on the guardrail: a
finding without spaces never reaches over a space, and one with spaces has at most `reach` letters
and digits.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from orchestrator.guardrails.base import Verdict
from orchestrator.guardrails.fold import is_letter

# Letters and digits after which even a text without any space is shown.
_LONG_WORD = 1000

# The part by which a text that cannot be shown has to grow before it is checked again.
_PATIENCE = 1 / 16

_BORDER = re.compile(r"\s|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3001-\u30ff\u3400-\u9fff]")


class _Border(NamedTuple):
    """A place up to which the text was shown, and where no finding lies across."""

    place: int = 0
    shown: int = 0
    letters: int = 0


class GuardedStream:
    """Lets a text through piece by piece, as a guardrail allows. It does no I/O.

    The output is what the guardrail makes of the whole text, as far as its findings are no longer
    than `reach`. A finding that depends on all of the text (a topic, a content filter) may come
    when some of the text was already shown; then nothing more is.

    Each check reads the text from its beginning, unless the guardrail is `bounded`: where
    characters are paid for, a larger interval costs less.

    Attributes:
        verdict: The last verdict; after `finish` that of the whole text, which is for the trace.
        blocked: Whether the text was blocked.
        checks: How many checks were made.
    """

    def __init__(
        self,
        check: Callable[[str], Verdict],
        interval: int = 50,
        *,
        reach: int = 200,
        bounded: bool = False,
    ) -> None:
        """Begins a text.

        Args:
            check: Asks the guardrail about the text so far.
            interval: After how many further characters the text is checked again.
            reach: Letters and digits that the longest finding with spaces in it may have.
            bounded: Whether no finding depends on text that is further away than that. Then only
                the last check reads the whole text, and a stream takes time linear in its length.
        """
        self.verdict = Verdict()
        self.blocked = False
        self.checks = 0
        self._check = check
        self._interval = max(interval, 1)
        self._reach = reach
        self._text = ""
        self._pieces: list[str] = []  # what came since, not yet joined to it
        self._waiting = 0  # characters of them
        self._ends = _CutFinder(reach)
        self._done = 0  # characters of the text that were shown, masked or not
        self._shown = ""
        self._bounded = bounded
        self._letters = 0  # letters and digits of the text that were shown
        self._borders = deque([_Border()])

    @property
    def text(self) -> str:
        """The text so far, as it went in."""
        if self._pieces:
            self._text = "".join((self._text, *self._pieces))
            self._pieces, self._waiting = [], 0
        return self._text

    def feed(self, piece: str) -> str:
        """Takes the next piece; returns the text to show now, or the message when it blocks."""
        if self.blocked:
            return ""
        self._pieces.append(piece)
        self._waiting += len(piece)
        if self._waiting < self._interval or self._waiting < self._compute_interval():
            return ""
        cut = self._ends.take(self.text)
        return self._release(cut) if cut > self._done else ""

    def finish(self) -> str:
        """Ends the text and checks it again; returns the rest to show, or the message."""
        if self.blocked or not self.text:
            return ""
        return self._release(len(self._text), last=True)

    def _compute_interval(self) -> float:
        # What is long and cannot be shown is looked at less often, the longer it gets.
        return (len(self._text) - self._begin().place) * _PATIENCE if self._bounded else 0

    def _release(self, cut: int, *, last: bool = False) -> str:
        begin = self._begin() if self._bounded and not last else _Border()
        text = self._text[begin.place :]
        verdict = self.verdict = self._check(text)
        self.checks += 1
        if verdict.blocked:
            self.blocked = True
            return verdict.text
        allowed = verdict.text if verdict.action == "INTERVENED" else text
        shown = self._shown[begin.shown :]
        if not allowed.startswith(shown):
            # The guardrail thinks otherwise of what was shown; the rest waits for the end.
            return allowed[_common(allowed, shown) :] if last else ""
        if last:
            return allowed[len(shown) :]
        done = self._done - begin.place
        end, done = _align(verdict, allowed, text, len(shown), done, cut - begin.place)
        return self._show(allowed[len(shown) : end], begin.place + done, cut)

    def _show(self, new: str, done: int, cut: int) -> str:
        self._letters += sum(map(is_letter, self._text[self._done : done]))
        self._shown += new
        self._done = done
        if self._bounded and done == cut:
            self._borders.append(_Border(done, len(self._shown), self._letters))
        return new

    def _begin(self) -> _Border:
        """The last border that is far enough from what is not shown yet."""
        borders = self._borders
        while len(borders) > 1 and self._letters - borders[1].letters >= self._reach:
            borders.popleft()
        return borders[0]


class _CutFinder:
    """Where a text can be cut, as it grows. Looks at each character once."""

    def __init__(self, reach: int) -> None:
        """Begins a text; a finding across a cut has at most `reach` letters and digits."""
        self._reach = reach
        self._seen = 0
        self._letters = 0
        self._cut = 0
        self._places: deque[int] = deque(maxlen=max(_LONG_WORD, reach, 1))  # of the last letters
        self._borders: deque[tuple[int, int]] = deque()  # ends, and the letters up to there

    def take(self, text: str) -> int:
        """Takes the grown text; returns the end of what no finding can reach any more."""
        borders, places = self._borders, self._places
        for place in range(self._seen, len(text)):
            if is_letter(text[place]):
                self._letters += 1
                places.append(place)
            if _BORDER.match(text, place):
                if borders and borders[-1][1] == self._letters:
                    borders.pop()  # the later one is as good
                borders.append((place + 1, self._letters))
        self._seen = len(text)
        while borders and self._letters - borders[0][1] >= self._reach:
            self._cut = max(self._cut, borders.popleft()[0])
        if len(places) == places.maxlen:
            self._cut = max(self._cut, places[0])
        return self._cut


def _align(
    verdict: Verdict, allowed: str, text: str, end: int, place: int, cut: int
) -> tuple[int, int]:
    # How far a masked text may be shown, given that the text itself may be shown up to `cut`. `end`
    # of the masked text and `place` of the text were shown before. Both are walked over what they
    # share and over each mask.
    masked = _collect_masks(verdict)
    while True:
        same = _common(text[place:cut], allowed[end : end + cut - place])
        if place + same == cut:
            return end + same, cut
        # The match and its mask may begin with the same characters.
        start = allowed.rfind("{", end, end + same + 1)
        before = place + start - end
        found = [it for it in masked if start >= 0 and allowed.startswith(it[1], start)]
        match = max((it for it, _ in found if text.startswith(it, before)), key=len, default="")
        if not match:
            return end + same, place + same
        if before + len(match) > cut:
            return start, before
        place = before + len(match)
        end = start + len(next(mask for it, mask in found if it == match))


def _collect_masks(verdict: Verdict) -> set[tuple[str, str]]:
    return {
        (item["match"], f"{{{item[label]}}}")
        for assessment in verdict.assessments
        for name, label in (("piiEntities", "type"), ("regexes", "name"))
        for item in assessment.get("sensitiveInformationPolicy", {}).get(name, ())
        if item.get("match") and label in item
    }


def _common(one: str, other: str) -> int:
    # The length of the beginning that two texts share, by bisection: comparing slices is done in C.
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
