"""What the programs in this folder call: small stand-ins for a library, a carrier and a jury."""

import json
from pathlib import Path

_PAPERS = Path(__file__).with_name("papers.json")
_PARCELS = {"1042": {"place": "Lyon", "days_late": 3}, "1043": {"place": "Bern", "days_late": 0}}


def find_papers(topic: str) -> list[dict[str, object]]:
    """Papers whose title or abstract has a word of the topic.

    Args:
        topic: What they are about.
    """
    words = topic.lower().split()
    papers = json.loads(_PAPERS.read_text(encoding="utf-8"))
    return [it for it in papers if any(word in str(it).lower() for word in words)]


def note(title: str, year: int, finding: str) -> str:
    """One line of a reading list.

    Args:
        title: The paper's title.
        year: When it came out.
        finding: What it found.
    """
    return f"{title} ({year}): {finding}"


def track(order: str) -> dict[str, object]:
    """Where the parcel of an order is.

    Args:
        order: The order's number.
    """
    return _PARCELS.get(str(order), {"place": "the warehouse", "days_late": 0})


def score(slogan: str) -> dict[str, object]:
    """How good a slogan is: short, and without an exclamation mark.

    Args:
        slogan: The slogan.
    """
    words = len(slogan.split())
    if words > 6:
        return {"slogan": slogan, "value": 0.4, "why": f"it has {words} words; the most are 6"}
    if "!" in slogan:
        return {"slogan": slogan, "value": 0.6, "why": "it shouts; leave the exclamation mark out"}
    return {"slogan": slogan, "value": 1.0, "why": ""}
