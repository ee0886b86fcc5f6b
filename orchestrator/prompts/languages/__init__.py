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

from __future__ import annotations

import importlib
import inspect
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.errors import ResourceNotFound, TemplateError, ValidationError
from orchestrator.prompts.source import Source
from orchestrator.prompts.template_files import ENDINGS, read_text
from orchestrator.support.spelling import find_close

__all__ = ["ENDINGS", "LANGUAGES", "language_of", "load_template", "read_template"]

if TYPE_CHECKING:
    from orchestrator.prompts.languages.base import Document

# Bedrock's limit for `basePromptTemplate`, and so that of a template in any language.
MAX_TEMPLATE_CHARS = 100_000

_SEMANTIC_KERNEL = f"{__name__}.semantic_kernel.document"
# Modules, imported when they are needed, each with a function `read(text, source=None, *,
# folder=None, environ=None, **options)` that gives a `Document`, and the options that a language
# fixes. `folder`: where files may be read that the template names; `environ`: the variables that
# it may read. Both are `None` where the author may be anybody.
_READERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "prompty": (f"{__name__}.prompty.document", {}),
    "semantic-kernel": (_SEMANTIC_KERNEL, {}),
    "handlebars": (_SEMANTIC_KERNEL, {"format": "handlebars"}),
    "jinja2": (_SEMANTIC_KERNEL, {"format": "jinja2"}),
    "ppe": ("orchestrator.flows.ppe.messages", {}),  # with the language, of which it is a part
}

# The languages.
LANGUAGES = tuple(_READERS)

# The files of a prompt of Semantic Kernel that is a folder.
PROMPT_FILE, CONFIG_FILE = "skprompt.txt", "config.json"

_SEMANTIC_KERNEL_YAML = re.compile(r"^(?:template_format|template):", re.MULTILINE)


def is_prompt_folder(path: str | Path) -> bool:
    """Whether a path is a folder that is a prompt of Semantic Kernel."""
    return (Path(path) / PROMPT_FILE).is_file()


def is_prompt_yaml(text: str) -> bool:
    """Whether the text of a YAML file is a prompt of Semantic Kernel."""
    return _SEMANTIC_KERNEL_YAML.search(text) is not None


def language_of(file: str | Path) -> str | None:
    """The language that a file's ending says it is written in, if any."""
    name = str(file).lower()
    if Path(name).name == PROMPT_FILE:
        return "semantic-kernel"
    return next((language for end, language in ENDINGS.items() if name.endswith(end)), None)


def read_template(
    text: str,
    language: str,
    source: str | None = None,
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
    **options: Any,
) -> Document:
    """Reads a template.

    Args:
        text: The template.
        language: One of `LANGUAGES`.
        source: The file that it is from, for messages.
        folder: Where files may be read that it names; without one it may name none.
        environ: The variables that it may read; without them it may read none.
        **options: Options of the language: for Prompty `dialect`, `params`, `roots`, `strict`.

    Raises:
        TemplateError: It is wrong, with its place.
        ValidationError: There is no such language, or it has no such option.
    """
    if language not in _READERS:
        close = find_close(language, LANGUAGES)
        meant = f": did you mean {close!r}?" if close else "."
        raise ValidationError(
            f"there is no template language {language!r}{meant} There are {', '.join(LANGUAGES)}"
        )
    if len(text) > MAX_TEMPLATE_CHARS:
        raise TemplateError(
            f"the template has {len(text):,} characters; a template has up to "
            f"{MAX_TEMPLATE_CHARS:,}",
            file=source,
        )
    Source(text, source).refuse_tokens()
    module, fixed = _READERS[language]
    read = importlib.import_module(module).read
    known = inspect.signature(read).parameters.keys() - fixed.keys()
    for name in options:
        if name not in known:
            raise ValidationError(f"templates of the language {language!r} have no option {name!r}")
    document: Document = read(text, source, folder=folder, environ=environ, **fixed, **options)
    return document


def load_template(path: str | Path, *, language: str | None = None, **options: Any) -> Document:
    """Reads a template's file.

    It may name files beside it, and a Prompty file variables of the process: load only what you
    trust to do so.

    Args:
        path: The file. Its ending tells its language (`ENDINGS`). Or a folder that has
            `skprompt.txt` and, if it likes, `config.json` (Semantic Kernel).
        language: Its language, where the ending does not tell it.
        **options: Options of the language; see `read_template`.

    Raises:
        ResourceNotFound: There is no such file.
        TemplateError: It is wrong, with its place.
        ValidationError: Nothing tells its language, or it has no such option.
    """
    file = Path(path)
    if is_prompt_folder(file):
        file = file / PROMPT_FILE
    if not file.is_file():
        raise ResourceNotFound(f"there is no template {str(path)!r}")
    text = read_text(file)
    language = language or language_of(file)
    if language is None and file.suffix.lower() in (".yaml", ".yml"):
        language = "semantic-kernel" if is_prompt_yaml(text) else None
    if language is None:
        raise ValidationError(
            f"the ending of {file.name!r} tells no template language; there are "
            f"{', '.join(ENDINGS)}. Give language=, one of {', '.join(LANGUAGES)}"
        )
    given = {"folder": file.parent, "environ": os.environ, **options}
    if file.name == PROMPT_FILE and (config := file.with_name(CONFIG_FILE)).is_file():
        given = {"config": config, **given}
    return read_template(text, language, str(file), **given)
