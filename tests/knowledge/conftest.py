from __future__ import annotations

from pathlib import Path

import pytest
from knowledge_support import write


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An environment with credentials that open nothing, and nobody's configuration files."""
    for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", f"{tmp_path}/config")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", f"{tmp_path}/credentials")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-secret-key")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")


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
