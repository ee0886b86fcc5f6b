"""An answer that is checked while it streams: nothing is shown before it was looked at.

The text so far is checked as a whole, again and again (Bedrock: `applyGuardrailInterval`). What
then may be shown ends a little before the end of the text, because what stands there may yet
become something that is blocked or masked: `john.doe` becomes an address of mail. How much is held
back depends on the guardrail: a finding without spaces in it never reaches over a space, and one
with spaces has at most `reach` letters and digits.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from orchestrator.guardrails.base import Verdict
from orchestrator.guardrails.fold import is_letter

__all__ = ["GuardedStream"]

_LONG_WORD = 1000
"""Letters and digits after which even a text without any space is shown."""

_BORDER = re.compile(r"\s|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3001-\u30ff\u3400-\u9fff]")


class GuardedStream:
    """Lets a text through piece by piece, as a guardrail allows. Without I/O of its own.

    What comes out is what the guardrail makes of the whole text, as far as its findings are no
    longer than `reach`. A finding that depends on all of the text (a topic, a content filter) may
    be made when some of the text was shown already; from then on nothing more is.

    Each check looks at the text from its beginning: with a guardrail that is paid for by the
    character, a larger interval costs less.

    Attributes:
        verdict: The last verdict; after `finish` that of the whole text. It is the one to tell in
            the trace.
        blocked: Whether the text was blocked.
        checks: How many checks were made.
    """

    def __init__(
        self, check: Callable[[str], Verdict], interval: int = 50, *, reach: int = 200
    ) -> None:
        """Begins a text.

        Args:
            check: Asks the guardrail about the text so far.
            interval: After how many further characters the text is checked again.
            reach: Letters and digits that the longest finding with spaces in it may have
                (`LocalGuardrail.reach`).
        """
        self.verdict = Verdict()
        self.blocked = False
        self.checks = 0
        self._check = check
        self._interval = max(interval, 1)
        self._reach = reach
        self._text = ""
        self._checked = 0  # characters of the text that were looked at, or need no look yet
        self._done = 0  # characters of the text that were shown, masked or not
        self._shown = ""

    def feed(self, piece: str) -> str:
        """Takes the next piece.

        Returns:
            What may be shown now; when the text was just blocked, the guardrail's message.
        """
        if self.blocked:
            return ""
        self._text += piece
        if len(self._text) - self._checked < self._interval:
            return ""
        self._checked = len(self._text)
        cut = self._cut()
        return self._pass(cut) if cut > self._done else ""

    def finish(self) -> str:
        """Ends the text, which is checked once more.

        Returns:
            The rest that may be shown, or the guardrail's message.
        """
        if self.blocked or not self._text:
            return ""
        return self._pass(len(self._text), last=True)

    def _pass(self, cut: int, *, last: bool = False) -> str:
        verdict = self.verdict = self._check(self._text)
        self.checks += 1
        if verdict.blocked:
            self.blocked = True
            return verdict.text
        allowed = verdict.text if verdict.action == "INTERVENED" else self._text
        if not allowed.startswith(self._shown):
            # The guardrail thinks otherwise of what was shown; the rest waits for the end.
            return allowed[_common(allowed, self._shown) :] if last else ""
        end, self._done = (len(allowed), cut) if last else self._aligned(verdict, allowed, cut)
        new = allowed[len(self._shown) : end]
        self._shown = allowed[:end]
        return new

    def _aligned(self, verdict: Verdict, allowed: str, cut: int) -> tuple[int, int]:
        """How far the masked text may be shown, given how far the text itself may be.

        Both are walked from what was shown already, over what they share and over each mask.

        Returns:
            The place in the masked text, and the one in the text that belongs to it.
        """
        text, place, end = self._text, self._done, len(self._shown)
        masked = _masked(verdict)
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

    def _cut(self) -> int:
        """The end of what no finding can reach any more, however the text goes on."""
        text, held = self._text, 0
        for place in range(len(text) - 1, self._done - 1, -1):
            if held >= self._reach and _BORDER.match(text, place):
                return place + 1
            held += is_letter(text[place])
            if held >= max(_LONG_WORD, self._reach):
                return place
        return 0


def _masked(verdict: Verdict) -> set[tuple[str, str]]:
    """What was masked in a text, and the masks."""
    return {
        (item["match"], f"{{{item[label]}}}")
        for assessment in verdict.assessments
        for name, label in (("piiEntities", "type"), ("regexes", "name"))
        for item in assessment.get("sensitiveInformationPolicy", {}).get(name, ())
        if item.get("match") and label in item
    }


def _common(one: str, other: str) -> int:
    """The length of the beginning that two texts share."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
