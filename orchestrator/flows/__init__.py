"""Scripts that orchestrate: Programmable Prompt Engine scripts, and the workflow prompt language.

```python
from orchestrator.flows import Flow, load_flow

flow = Flow.from_text("根据$topic写一首诗 -> poem", language="pl")
flow.run({"topic": "月亮"}, model="local").output
```

A script is read whole before anything runs (`ppe/`, `pl/`), into a program that yields what it
wants done, step by step (`steps.py`). `orchestration.py` has each step done by the effects of an
agent's turn, so that scripts have its journal, limits, trace, streaming and resuming. Here lives
nothing that only one of the languages has, but for their own rooms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.errors import FlowError
from orchestrator.lazily import lazily

if TYPE_CHECKING:
    from orchestrator.flows.events import FlowEvent, FlowResult
    from orchestrator.flows.flow import Flow, load_flow
    from orchestrator.flows.orchestration import FlowOrchestration

__all__ = ["Flow", "FlowError", "FlowEvent", "FlowOrchestration", "FlowResult", "load_flow"]

_HOMES = {
    "Flow": "flow",
    "FlowEvent": "events",
    "FlowResult": "events",
    "load_flow": "flow",
    "FlowOrchestration": "orchestration",
}

__getattr__, __dir__ = lazily(__name__, _HOMES)
