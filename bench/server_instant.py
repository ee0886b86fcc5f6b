"""`orchestrator` with one model more: `instant`, which answers in the server's own process.

`python -m bench.server_instant serve --model instant ...` is the server as it is, whose turns wait
for no model. It answers as the model server of `bench/server_model.py` does, but calls no action.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.server_model import TOKEN
from orchestrator.cli import main
from orchestrator.message import text_of
from orchestrator.models import Model, ModelReply
from orchestrator.models.base import Usage
from orchestrator.models.registry import MODELS, Provider


class InstantModel(Model):
    """Says at once which questions it saw."""

    model_id = "instant"

    def complete(self, request: Any) -> ModelReply:
        asked = [text_of(it["content"]) for it in request.messages if it["role"] == "user"]
        seen = " ".join(token for text in asked for token in TOKEN.findall(text))
        content = [{"text": f"<answer>seen {seen}</answer>"}]
        return ModelReply(content, "end_turn", Usage(100, 20, 0, 0, 1))

    async def acomplete(self, request: Any) -> ModelReply:
        return self.complete(request)


def build_model(rest: str, folder: Path) -> InstantModel:
    return InstantModel()


def register() -> None:
    """Has the spec `instant` name the model, in this process."""
    MODELS["instant"] = Provider("bench.server_instant", "'instant'", needs_rest=False)


# A worker process runs its parent's main module, under this other name.
if __name__ in ("__main__", "__mp_main__"):
    register()
if __name__ == "__main__":
    main()
