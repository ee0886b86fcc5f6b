"""A prompt on the terminal, every piece in the colour of where it came from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.cli.terminal import Terminal, clean
from orchestrator.message import AUTHOR, Span

if TYPE_CHECKING:
    from rich.text import Text

    from orchestrator.agent.render import Prompt

_COLOURS = {
    "question": "green",
    "query": "green",
    "instruction": "cyan",
    "tools": "magenta",
    "functions": "magenta",
    "conversation_history": "yellow",
    "agent_scratchpad": "bright_blue",
    "search_results": "bright_yellow",
    "latest_response": "bright_green",
    "responses": "bright_green",
    "prompt_session_attributes": "bright_red",
    "ask_user_missing_information": "bright_magenta",
}
_OTHER = "bright_cyan"


def prompt_document(prompt: Prompt) -> dict[str, Any]:
    """A rendered prompt as JSON members, with the spans of system text and messages."""
    return {
        "stage": prompt.stage,
        "model_id": prompt.model_id,
        "system": str(prompt.system),
        "system_spans": [span._asdict() for span in prompt.system.spans],
        "messages": [
            {**message, "spans": [span._asdict() for span in message.spans]}
            for message in prompt.messages
        ],
        "tools": list(prompt.tools),
        "inference": dict(prompt.inference),
    }


def show_prompt(terminal: Terminal, prompt: Prompt, template: str) -> None:
    """Writes a rendered prompt: system text, messages, tools, inference settings, legend.

    Args:
        terminal: Where to.
        prompt: The prompt.
        template: Where its template is from.
    """
    view = _View(terminal)
    view.show_heading(f"{prompt.stage}", f"for {prompt.model_id}")
    view.show_heading("template", template)
    if prompt.system:
        view.show_message("system", [{"text": str(prompt.system)}], prompt.system.spans)
    for message in prompt.messages:
        view.show_message(message["role"], message["content"], message.spans)
    view.show_tools(prompt.tools)
    view.show_inference(prompt.inference)
    view.show_legend()


def show_prompt_text(terminal: Terminal, text: str) -> None:
    """Writes a prompt as a trace tells it: a JSON body, or a text."""
    view = _View(terminal)
    try:
        body = json.loads(text)
        messages = body["messages"]
    except (ValueError, KeyError, TypeError):
        terminal.block(clean(text))
        return
    if body.get("system"):
        view.show_message("system", [{"text": body["system"]}], ())
    for message in messages:
        view.show_message(message["role"], message["content"], ())


class _View:
    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._seen: dict[str, None] = {}

    def show_heading(self, name: str, rest: str = "") -> None:
        from rich.text import Text

        self._terminal.path(Text.assemble((name, "heading"), (f" {rest}" if rest else "", "quiet")))

    def show_message(self, role: str, content: Any, spans: Sequence[Span]) -> None:
        self._terminal.print()
        given = any(span.origin != AUTHOR for span in spans)
        self.show_heading(
            role, "" if given or not spans or role == "system" else "from the template"
        )
        blocks = [{"text": content}] if isinstance(content, str) else content
        for index, block in enumerate(blocks):
            own = [span for span in spans if span.block == index]
            if "text" in block:
                self._terminal.block(self._colour_spans(block["text"], own), 2)
            else:
                shown = json.dumps(block, ensure_ascii=False)
                origin = own[0].origin if own else AUTHOR
                self._terminal.block(self._style_piece(shown, origin), 2)

    def show_tools(self, tools: Iterable[Mapping[str, Any]]) -> None:
        from rich.text import Text

        specs = [tool["toolSpec"] for tool in tools]
        if not specs:
            return
        self._terminal.print()
        self.show_heading("tools")
        for spec in specs:
            schema = spec["inputSchema"]["json"]
            needed = schema.get("required", ())
            names = ", ".join(
                name if name in needed else f"{name}?" for name in schema.get("properties", ())
            )
            self._terminal.block(Text.assemble((spec["name"], "call"), f"({names})"), 2)
            if spec.get("description"):
                self._terminal.block(Text(clean(spec["description"]), "quiet"), 4)

    def show_inference(self, settings: Mapping[str, Any]) -> None:
        self._terminal.print()
        self.show_heading("inference")
        shown = [
            f"{name} {value if isinstance(value, (int, float)) else json.dumps(value)}"
            for name, value in settings.items()
        ]
        self._terminal.block(" · ".join(shown) or "the model's defaults", 2)

    def show_legend(self) -> None:
        from rich.text import Text

        origins = [origin for origin in self._seen if origin != AUTHOR]
        if not origins:
            return
        line = Text("filled from: ")
        for place, origin in enumerate(origins):
            line.append(", " if place else "").append(f"${origin}$", _pick_colour(origin))
        self._terminal.print()
        self._terminal.block(line)

    def _colour_spans(self, text: str, spans: Sequence[Span]) -> Text:
        from rich.text import Text

        if not spans:
            return Text(clean(text))
        made = Text()
        for span in spans:
            made.append_text(self._style_piece(text[span.start : span.end], span.origin))
        return made

    def _style_piece(self, text: str, origin: str) -> Text:
        from rich.text import Text

        self._seen[origin] = None
        return Text(clean(text), "" if origin == AUTHOR else _pick_colour(origin))


def _pick_colour(origin: str) -> str:
    return _COLOURS.get(origin, _OTHER)
