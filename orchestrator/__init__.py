"""Run Amazon-Bedrock-style agents anywhere.

```python
from orchestrator import Agent

agent = Agent.load("examples/insurance")
print(agent.invoke("Which claims are open?", session_id="s-1"))
```
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from orchestrator.errors import (
    DefinitionError,
    DependencyFailed,
    FlowError,
    LimitExceeded,
    ModelOutputError,
    OrchestratorError,
    SessionConflict,
    TemplateError,
    TurnLeft,
    ValidationError,
)
from orchestrator.limits import Limits

if TYPE_CHECKING:
    from orchestrator.actions import ActionGroup, LambdaHandler, Reprompt, ReturnControl, action
    from orchestrator.agent import (
        Agent,
        Collaborator,
        Flow,
        FlowEvent,
        FlowResult,
        PromptTemplate,
        TemplateResult,
        load_flow,
        load_template,
    )
    from orchestrator.engine.plan import Memory
    from orchestrator.engine.results import ControlReturn
    from orchestrator.engine.trace.past_turns import PastTurn
    from orchestrator.engine.trace.reply import Event, Files, Reply, TextDelta, TracePart, TurnEnd
    from orchestrator.engine.undecided_calls import Undecided
    from orchestrator.knowledge import KnowledgeBase
    from orchestrator.sessions import Sessions, SQLiteStore

__all__ = [
    "ActionGroup",
    "Agent",
    "Collaborator",
    "ControlReturn",
    "DefinitionError",
    "DependencyFailed",
    "Event",
    "Files",
    "Flow",
    "FlowError",
    "FlowEvent",
    "FlowResult",
    "KnowledgeBase",
    "LambdaHandler",
    "LimitExceeded",
    "Limits",
    "Memory",
    "ModelOutputError",
    "OrchestratorError",
    "PastTurn",
    "PromptTemplate",
    "Reply",
    "Reprompt",
    "ReturnControl",
    "SQLiteStore",
    "SessionConflict",
    "Sessions",
    "TemplateError",
    "TemplateResult",
    "TextDelta",
    "TracePart",
    "TurnEnd",
    "TurnLeft",
    "Undecided",
    "ValidationError",
    "action",
    "load_flow",
    "load_template",
]

# Imported when first used: `import orchestrator` stays quick.
_LAZY = {
    "ActionGroup": "orchestrator.actions",
    "LambdaHandler": "orchestrator.actions",
    "Reprompt": "orchestrator.actions",
    "ReturnControl": "orchestrator.actions",
    "action": "orchestrator.actions",
    "Agent": "orchestrator.agent",
    "Collaborator": "orchestrator.agent",
    "Flow": "orchestrator.agent",
    "FlowEvent": "orchestrator.agent",
    "FlowResult": "orchestrator.agent",
    "PromptTemplate": "orchestrator.agent",
    "TemplateResult": "orchestrator.agent",
    "load_flow": "orchestrator.agent",
    "load_template": "orchestrator.agent",
    "Memory": "orchestrator.engine.plan",
    "ControlReturn": "orchestrator.engine.results",
    "PastTurn": "orchestrator.engine.trace.past_turns",
    "KnowledgeBase": "orchestrator.knowledge",
    "Event": "orchestrator.engine.trace.reply",
    "Files": "orchestrator.engine.trace.reply",
    "Reply": "orchestrator.engine.trace.reply",
    "TextDelta": "orchestrator.engine.trace.reply",
    "TracePart": "orchestrator.engine.trace.reply",
    "TurnEnd": "orchestrator.engine.trace.reply",
    "Undecided": "orchestrator.engine.undecided_calls",
    "SQLiteStore": "orchestrator.sessions",
    "Sessions": "orchestrator.sessions",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
