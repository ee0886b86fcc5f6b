from __future__ import annotations

import pytest

from orchestrator.models.local import LocalModel


@pytest.fixture(scope="session")
def light() -> LocalModel:
    """The light model, loaded."""
    pytest.importorskip("xllamacpp", reason="the extra 'local' is not installed")
    # Tests run side by side, one on each core: threads would wait for each other most of the time.
    model = LocalModel("light", context=2048, threads=1, batch_threads=1)
    model.load()
    return model
