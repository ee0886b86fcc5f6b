"""Templates: their text compiled once, filled per turn, and the dialects they are written in.

```python
dialect = load_dialect(dialect_for(model_id))
stage = dialect.stages["ORCHESTRATION"]
template = compile_template(stage.template, stage="ORCHESTRATION", dialect=dialect)
bound = template.bind({"instruction": "...", "question": "..."}, history)
bound.system, bound.messages(scratchpad)
```
"""

from orchestrator.prompts.bound_prompt import BoundPrompt
from orchestrator.prompts.compiler import compile_template, lint_template
from orchestrator.prompts.dialect import (
    Dialect,
    StageDefaults,
    dialect_for,
    list_dialects,
    load_dialect,
)
from orchestrator.prompts.languages import load_template
from orchestrator.prompts.placeholders import PLACEHOLDERS, STAGES, Placeholder
from orchestrator.prompts.steps import step_messages
from orchestrator.prompts.template import Template, Use

__all__ = [
    "PLACEHOLDERS",
    "STAGES",
    "BoundPrompt",
    "Dialect",
    "Placeholder",
    "StageDefaults",
    "Template",
    "Use",
    "compile_template",
    "dialect_for",
    "lint_template",
    "list_dialects",
    "load_dialect",
    "load_template",
    "step_messages",
]
