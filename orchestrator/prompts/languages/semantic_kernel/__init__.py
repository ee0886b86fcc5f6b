"""Semantic Kernel's prompts: `<message>` tags on top of three template engines.

`document.py` reads a prompt; `blocks.py`, `handlebars.py` and `jinja2_prompts.py` are the engines;
`tags.py` and `content.py` make messages of what they render.
"""

from orchestrator.prompts.languages.semantic_kernel.document import MessagesDocument, read

__all__ = ["MessagesDocument", "read"]
