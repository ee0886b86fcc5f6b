"""Request ids: version 4 UUIDs that never repeat, not in a forked process either."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid

import pytest

from orchestrator.engine.run.turn_start import request_id


def test_they_are_uuids_and_all_different() -> None:
    made = [request_id() for _ in range(2_000)]
    assert len(set(made)) == len(made)
    assert {uuid.UUID(one).version for one in made} == {4}
    assert {uuid.UUID(one).variant for one in made} == {uuid.RFC_4122}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_makes_others() -> None:
    program = (
        "import os\n"
        "from orchestrator.engine.run.turn_start import request_id\n"
        "request_id()\n"
        "child = os.fork()\n"
        "os.write(1, (request_id() + '\\n').encode())\n"
        "child and os.waitpid(child, 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    first, second = done.stdout.split()
    assert first != second
