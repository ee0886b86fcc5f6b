"""All targets, by name."""

from __future__ import annotations

from collections.abc import Mapping

from . import definitions, journals, parsers, renderings, requests
from .batch import Target

TARGETS: Mapping[str, Target] = {
    "parsers": parsers.opened,
    "renderings": renderings.opened,
    "definitions": definitions.opened,
    "journals": journals.opened,
    "http": requests.opened,
}
