from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from knowledge_servers import Caller, running, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder that stands for the bucket `handbook`."""
    return write(
        tmp_path / "bucket",
        {
            "hr/leave.md": "# Leave\n\nEverybody has 28 days of leave a year.\n",
            "hr/leave.md.metadata.json": '{"metadataAttributes": {"topic": "time", "year": 2026}}',
            "hr/dogs.md": "# Dogs\n\nA dog is welcome on the second floor.\n",
            "it/vpn.txt": "Error VPN-809 means that the certificate has expired.\n",
        },
    )


@pytest.fixture
def server(tmp_path: Path, folder: Path) -> Iterator[Caller]:
    """A server whose state is in files."""
    with running(state=tmp_path / "state.sqlite", buckets={"handbook": folder}) as caller:
        yield caller
