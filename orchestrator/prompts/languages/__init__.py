"""Templates in other languages than Bedrock's: Prompty, Semantic Kernel, Jinja2, PPE messages.

A language reads a template's text once, into a `Document` (`base.py`). A document says which
inputs it takes, and renders messages whose every piece knows who wrote it; only what the author
wrote can be a message, a role, a tool or a medium. Here lives nothing that only agents have.

```python
document = load_template("greeting.prompty")
rendered = document.render({"question": "Who are you?"})
rendered.messages, rendered.as_dicts(), rendered.converse()
```
"""

from orchestrator.prompts.languages.registry import (
    LANGUAGES,
    language_of,
    load_template,
    read_template,
)
from orchestrator.prompts.template_files import ENDINGS

__all__ = ["ENDINGS", "LANGUAGES", "language_of", "load_template", "read_template"]
