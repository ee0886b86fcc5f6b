"""Moves agents out of AWS or a server into a folder, and back.

Every source is read into one form, a `Document`, and every target is written from it:

- `document.py`, `normalize.py`: the form, and the members in it that say nothing.
- readers: `pull.py` (AWS, or any endpoint; its client is `remote.py`), `folder.py`, and for files
  and whole projects `sources.py` and `project.py`, which find what there is:
  - `agentcore_toolkit.py`, also GetAgent's answers;
  - `cloudformation.py`, and `cdk.py` for what the CDK synthesises;
  - `terraform.py`: agents among resources, which `terraform_resources.py` reads from plans and
    states, and `terraform_source.py` from sources (`hcl*.py` is their language).
- `surroundings.py`: what stands beside agents in those and comes along: `function_code.py` makes
  handlers of Lambda functions. `template_surroundings.py` and `terraform_surroundings.py` find it.
- writers: `folder.py`, and `push.py` (AWS, or any endpoint).
- `portability.py`, `request_members.py`: what of a folder the API does not take.
"""

from orchestrator.transfer.difference import Difference, compare_folders, difference, list_changes
from orchestrator.transfer.document import Document
from orchestrator.transfer.folder import Change, changes, files_of, read_folder, write_files
from orchestrator.transfer.pull import read_agent
from orchestrator.transfer.push import Options, PushResult, push
from orchestrator.transfer.push_steps import Step
from orchestrator.transfer.remote import Remote, connect, connect_runtime
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
    "compare_folders",
    "connect",
    "connect_runtime",
    "difference",
    "files_of",
    "list_changes",
    "push",
    "read_agent",
    "read_folder",
    "read_source",
    "write_files",
]
