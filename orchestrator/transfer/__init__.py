"""Agents carried from one place to another: out of AWS or a server, into a folder, and back.

Every source is read into one form, a `Document`, and every target is written from it:

- `document.py`, `normal.py`: the form, and what of it says nothing.
- readers: `pull.py` (AWS, or any endpoint; its client is `remote.py`), `folder.py`, and for files
  `get_agent.py`, `toolkit.py`, `cloudformation.py`, `terraform.py`, told apart by `sources.py`.
- writers: `files.py` (a folder), `push.py` (AWS, or any endpoint).
- `portable.py`, `bounds.py`: what of a folder the API does not take.
"""

from orchestrator.transfer.difference import Difference, difference
from orchestrator.transfer.document import Document
from orchestrator.transfer.folder import Change, changes, files_of, read_folder, write_files
from orchestrator.transfer.pull import read_agent
from orchestrator.transfer.push import Options, PushResult, push
from orchestrator.transfer.push_steps import Step
from orchestrator.transfer.remote import Remote, connect
from orchestrator.transfer.sources import read_source

__all__ = [
    "Change",
    "Difference",
    "Document",
    "Options",
    "PushResult",
    "Remote",
    "Step",
    "changes",
    "connect",
    "difference",
    "files_of",
    "push",
    "read_agent",
    "read_folder",
    "read_source",
    "write_files",
]
