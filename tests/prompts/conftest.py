import json

import pytest

from orchestrator.prompts import Dialect, Template, compile_template, load_dialect

BODY = {
    "system": "$instruction$ Think.",
    "messages": [
        {"role": "user", "content": "$question$"},
        {"role": "assistant", "content": "$agent_scratchpad$"},
    ],
}


@pytest.fixture(scope="session")
def xml() -> Dialect:
    return load_dialect("claude-3")


@pytest.fixture(scope="session")
def native() -> Dialect:
    return load_dialect("tool-use")


def compiled(body: object, dialect: Dialect, stage: str = "ORCHESTRATION", **options) -> Template:
    text = body if isinstance(body, str) else json.dumps(body)
    return compile_template(text, stage=stage, dialect=dialect, **options)
