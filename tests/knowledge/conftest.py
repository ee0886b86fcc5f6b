from __future__ import annotations

from pathlib import Path

import pytest
from knowledge_support import write


@pytest.fixture
def handbook(tmp_path: Path) -> Path:
    """Four small documents with metadata."""
    return write(
        tmp_path / "handbook",
        {
            "leave.md": "# Leave\n\n## Annual leave\n\nEverybody has 28 days of leave a year.\n\n"
            "## Being sick\n\nCall before ten. A doctor's note is needed from day four.\n",
            "leave.md.metadata.json": {"topic": "time", "year": 2026, "for": ["staff", "leads"]},
            "rules/dogs.md": "# Dogs\n\nA dog is welcome on the second floor.\n",
            "rules/dogs.md.metadata.json": {
                "topic": {"value": {"type": "STRING", "stringValue": "animals"}},
                "year": {"value": {"type": "NUMBER", "numberValue": 2024}},
                "draft": {"value": {"type": "BOOLEAN", "booleanValue": True}},
            },
            "vpn.txt": "Error VPN-809 means that the certificate has expired.\n\nRenew it.\n",
            "page.html": "<title>x</title><h1>Canteen</h1><p>Lunch costs <b>4.80</b> euros.</p>",
        },
    )
