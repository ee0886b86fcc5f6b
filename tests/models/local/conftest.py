from __future__ import annotations

import pytest

from orchestrator.models.local import LocalModel


@pytest.fixture(scope="session")
def light() -> LocalModel:
    """The light model, loaded."""
    pytest.importorskip("xllamacpp", reason="the extra 'local' is not installed")
    model = LocalModel("light", context=2048)
    model.load()
    return model
