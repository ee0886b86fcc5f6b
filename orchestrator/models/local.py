"""The embedded model: answers without a network, an account or a second process.

Prompts are built as token ids and plain text, so no value can write a chat token. Replies are
decoded under the grammar of the request's `CallFormat`, so every call is well-formed and names an
operation and parameters that exist. The evaluated prompt stays in memory between requests: a step
that appends to the last prompt pays for the new tokens only.
"""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from orchestrator.errors import DependencyFailed, ResourceNotFound
from orchestrator.models import weights
from orchestrator.models.base import Model, ModelReply, ModelRequest, Usage
from orchestrator.models.decoding import Decoding
from orchestrator.models.llama import Runtime, Settings, runtime
from orchestrator.models.prompt_beginnings import Reading, common_beginning, static_part
from orchestrator.models.reply_plan import decode_reply
from orchestrator.models.tool_calls import CALL_OPEN, ReplyReader, system_text, turns
from orchestrator.models.weights import Progress
from orchestrator.support.logs import get_logger

_log = get_logger(__name__)

# Length of a reply when the stage's inference configuration names none.
MAX_TOKENS = 1024


class LocalModel(Model):
    """A GGUF model that runs in this process.

    Nothing is downloaded: without its weights a call raises `ModelNotReady`, which says how to get
    them. When only the light model's weights are there, the default is the light model, with a
    warning.

    Attributes:
        model_id: `local:<name>`, or `local:<file>.gguf` for a custom file.
        reading: Called while a prompt is read, with the tokens that were read and those that are
            to be read; by the thread that waits for the reply.
    """

    def __init__(
        self,
        spec: str | Path = "default",
        *,
        context: int = 8192,
        threads: int = 0,
        batch_threads: int = 0,
        progress: Progress | None = None,
    ) -> None:
        """Names the model; it is loaded at the first call, or by `load`.

        Args:
            spec: A name or alias of `orchestrator models list`, `"default"`, or a GGUF file's path.
            context: Tokens of prompt and reply together.
            threads: Threads that generate; 0 chooses by the number of cores.
            batch_threads: Threads that read the prompt; 0 chooses by the number of cores.
            progress: Called while the model is loaded.

        Raises:
            ResourceNotFound: There is no such model or file.
        """
        self._settings = Settings(context, threads, batch_threads)
        self._progress = progress
        self.reading: Reading | None = None
        self._file: Path | None = None
        self._name = ""
        self._call_bias = 0.0
        if _is_weights(str(spec)):
            self._file = Path(spec).expanduser()
            if not self._file.is_file():
                raise ResourceNotFound(f"there is no model file {str(spec)!r}")
            self.model_id = f"local:{self._file.name}"
            return
        chosen = weights.choose(str(spec))
        self._name, self._call_bias = chosen.name, chosen.call_bias
        self.model_id = f"local:{self._name}"
        if self._name != weights.find(str(spec)).name:
            _log.warning(
                "the weights of %r are not here; using the light model %r, which plans worse "
                "(`orchestrator models pull %s` gets the default)",
                weights.DEFAULT,
                self._name,
                weights.DEFAULT,
            )

    def load(self, progress: Progress | None = None) -> None:
        """Loads the model now; later calls and models of the same file share it.

        It fails as `stream` does.
        """
        self._runtime(progress)

    def prepare(self, request: ModelRequest) -> int:
        """Reads what every request of its kind begins with, unless that is in memory or on disk.

        That is what the agent's definition decides alone. It is kept on disk, so that the first
        answer of another process need not wait for it. It fails as `stream` does.

        Returns:
            The tokens that had to be read.
        """
        fixed = static_part(request)
        if fixed is None:
            return 0
        model = self._runtime(self._progress)
        pieces = common_beginning(self._prompt(fixed, model), self._prompt(request, model))
        return model.beginnings.prepare(pieces, self.reading)

    def complete(self, request: ModelRequest) -> ModelReply:
        """The whole reply to `request`; it fails as `stream` does."""
        for item in self.stream(request):
            if isinstance(item, ModelReply):
                return item
        raise DependencyFailed("the embedded model gave no reply", resource=self.model_id)

    def stream(self, request: ModelRequest) -> Iterator[str | ModelReply]:
        """Yields the reply's text as it is decoded, and the whole reply at last.

        A prompt that is longer than the context gives an empty reply whose stop reason is
        `model_context_window_exceeded`.

        Raises:
            ModelNotReady: The weights are not downloaded, or the runtime is not installed.
            ValidationError: The request has something that the model cannot take.
            DependencyFailed: The runtime failed.
        """
        read = self.prepare(request)
        model = self._runtime(self._progress)
        body = self._body(request)

        def write_prompt(begun: str) -> list[Any]:
            return self._prompt(request, model, begun)

        def decode(grammar: str, reader: ReplyReader) -> Generator[str, None, tuple[Usage, str]]:
            reply = Decoding(model, body, grammar, self._settings.context)
            try:
                yield from reply.decode(write_prompt, reader, self.reading)
            except DependencyFailed as error:
                error.resource = self.model_id
                raise
            return reply.usage, reply.reason

        reader, usage, reason = yield from decode_reply(request, decode)
        # What was read for this request alone is no cached part of it.
        read = min(read, usage.cache_read_tokens)
        usage = usage.plus(Usage(read, cache_read_tokens=-read))
        yield self._reply(reader, reason, usage._replace(calls=1))

    def count(self, request: ModelRequest) -> int:
        """The tokens of a request's prompt; nothing is evaluated. Fails as `stream` does."""
        model, context = self._runtime(self._progress), self._settings.context
        # What is longer than the context is refused at once, and the refusal has its length.
        body = {"prompt": [*self._prompt(request, model), *[0] * context]}
        error: dict[str, Any] = {}
        for chunk in model.generate(body):
            error = chunk.get("error", {})
        if "n_prompt_tokens" not in error:
            raise DependencyFailed(
                f"the embedded model {self.model_id!r} did not count", resource=self.model_id
            )
        return int(error["n_prompt_tokens"]) - context

    def _prompt(self, request: ModelRequest, model: Runtime, begun: str = "") -> list[Any]:
        # Values go in as separate text pieces, so that none of them can write a chat token.
        said = [("system", system_text(request.system))] if request.system else []
        said += turns(request.messages)
        if begun:
            given = said.pop()[1] if said and said[-1][0] == "assistant" else ""
            said.append(("assistant", given + begun))
        return [*model.chat.prompt(said)]

    def _runtime(self, progress: Progress | None) -> Runtime:
        if self._file is None:
            self._file = weights.path(self._name, progress)
        return runtime(self._file, self._settings, progress)

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        inference = request.inference
        body: dict[str, Any] = {
            **request.additional,
            "max_tokens": inference.get("maximumLength", MAX_TOKENS),
            "temperature": inference.get("temperature", 0.0),
            "stop": list(inference.get("stopSequences", ())),
            "cache_prompt": True,
            "return_progress": True,  # a chunk per prompt batch: a chance to stop
        }
        if "topP" in inference:
            body["top_p"] = inference["topP"]
        if "topK" in inference:
            body["top_k"] = inference["topK"]
        if request.call_format is not None:
            form = request.call_format
            last = request.messages[-1]["content"]
            has_results = any("toolResult" in block for block in last)
            if self._call_bias and not form.choices and not has_results:
                biases = body.get("logit_bias", ())
                body["logit_bias"] = [*biases, [CALL_OPEN[0], self._call_bias]]
        return body

    def _reply(self, reader: ReplyReader, reason: str, usage: Usage) -> ModelReply:
        content = reader.blocks(f"tooluse_{secrets.token_hex(8)}")
        if content is None:
            return ModelReply([{"text": reader.raw}], reason, usage)
        if content and "toolUse" in content[0]:
            reason = "tool_use"
        return ModelReply(content, reason, usage)


def build_model(rest: str, folder: Path) -> LocalModel:
    """The model of a spec `local` or `local:<rest>`."""
    if _is_weights(rest) and (folder / rest).exists():
        rest = str(folder / rest)
    return LocalModel(rest) if rest else LocalModel()


def file_of_spec(rest: str, folder: Path) -> str:
    """The file that a spec `local:<rest>` names; empty for the name of a model."""
    return rest if _is_weights(rest) else ""


def _is_weights(name: str) -> bool:
    return name.lower().endswith(".gguf")
