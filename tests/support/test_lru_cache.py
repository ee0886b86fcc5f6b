"""The cache of values that were used last, in a forked process too."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

FORKED_DURING_A_SEARCH = """
import os
from threading import Event, Thread

from orchestrator.support.lru_cache import LruCache

searching, found = Event(), Event()


class Key:
    def __hash__(self):
        searching.set()
        found.wait()
        return 1


cache = LruCache(2)
cache.put("a", "kept")
thread = Thread(target=cache.find, args=(Key(),))
thread.start()
searching.wait()
child = os.fork()
if not child:
    os.write(1, cache.find("a").encode())
    os._exit(0)
os.waitpid(child, 0)
found.set()
thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_during_a_search_leaves_it_usable() -> None:
    command = [sys.executable, "-c", FORKED_DURING_A_SEARCH]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "kept"
