from __future__ import annotations

import pytest

from orchestrator.models import weights
from orchestrator.models.local import LocalModel


@pytest.fixture(scope="session")
def light() -> LocalModel:
    """The light model, loaded; tests that use it are skipped, with the way out, without it."""
    pytest.importorskip("xllamacpp", reason="the extra 'local' is not installed")
    light = weights.find("light")
    if not weights.place(light).is_file():
        pytest.skip(
            "THE EMBEDDED MODEL IS NOT TESTED: run `orchestrator models pull light` "
            f"({light.megabytes})"
        )
    model = LocalModel("light", context=2048)
    model.load()
    return model
