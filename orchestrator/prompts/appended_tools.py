"""The functions of an agent, appended to a prompt whose template does not describe them.

Where a model knows only those functions that its prompt describes, a template without them, such as
one that was written for a model that gets them beside the prompt, would have it call what it has
never read of.
"""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.errors import TemplateError
from orchestrator.prompts.dialect import Dialect, load_dialect
from orchestrator.prompts.placeholders import ORCHESTRATION
from orchestrator.prompts.source import warn
from orchestrator.prompts.template import Leaf, Template

APPENDED_TOOLS = "appended-tools"
"""The code of the finding about a template that does not describe the functions."""

# A text with placeholders, one a dialect; see `templates/README.md`.
_FILE = "appended_tools.txt"
_TOOLS = ("tools", "functions")


def describes_tools(template: Template) -> bool:
    """Whether a template has a place for the descriptions of all functions."""
    return any(use.name in _TOOLS and not use.literal for use in template.placeholders)


def read_appended_tools(dialect: Dialect) -> tuple[Leaf, Dialect]:
    """What is appended, with holes for the functions, and the dialect that is to fill them.

    A dialect of the user's own that has no such text has that of its family.

    Raises:
        TemplateError: The user's own text cannot be read.
    """
    try:
        text, _ = dialect.read(_FILE)
    except TemplateError:
        if dialect.name == dialect.family:
            raise
        return read_appended_tools(load_dialect(dialect.family))
    return Leaf(text.strip(), ORCHESTRATION, dialect.family), dialect


def append_tools(
    template: Template, added: Leaf, values: Mapping[str, str], model_id: str
) -> Template:
    """The template with the functions at its end, and a finding that says so."""
    if not added.text:  # the user's own text, which leaves them out
        return template
    template = template.append_text(added.fill_fixed(values))
    mark = "$" if template.language == "bedrock" else ""
    name = next(name for name in (*added.names, *_TOOLS) if name in _TOOLS)
    finding = warn(
        APPENDED_TOOLS,
        f"the {template.stage} template has no {mark}{name}{mark}, and {model_id!r} knows only the "
        "functions that its prompt describes: they are appended to it",
        f"put {mark}{name}{mark} where they belong; `orchestrator render` shows what is sent",
        template.source,
    )
    template.diagnostics = (*template.diagnostics, finding)
    return template
