"""The workbench's pages in Chromium, beside plain pages of the same text: `make bench-web`.

A prompt of 1 MB with 2,000 origins, and a trace of 5,000 steps. Of each it writes the time from the
navigation to the second frame after the page has loaded, as a ratio to that of a plain page, and
how long frames take while one scrolls from the top to the end and jumps over the whole length.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from orchestrator.engine.rendered_prompt import Prompt
from orchestrator.engine.trace.past_steps import PastStep
from orchestrator.message import Message, Span, Text
from orchestrator.server.workbench.pages import render, send_static
from orchestrator.server.workbench.prompt_view import build_prompt_view
from orchestrator.server.workbench.turn_view import ROWS, build_turn_view

CHARACTERS, ORIGINS, STEPS = 1_000_000, 2_000, 5_000
_TIMES = 7
_STEP = 600  # pixels of a frame's scrolling, which is faster than a person reads
_JUMPS = 40
_SETTLE = 1_000  # milliseconds in which the browser ends the page before and starts its tracing

_READY = """() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(
  () => done(performance.now()))))"""
# From the top to the end as by the wheel, then jumps over the whole length as by the scroll bar.
_SCROLL = """async ([step, jumps]) => {
  const frames = [];
  const end = () => document.documentElement.scrollHeight - innerHeight;
  const scroll = async (to) => {
    const began = performance.now();
    scrollTo(0, to);
    await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
    frames.push(performance.now() - began);
  };
  for (let at = 0; at < end() || document.getElementById("more"); at += step)
    await scroll(at = Math.min(at, end()));
  for (let at = 0; at < jumps; at++) await scroll(end() * ((at * 7) % jumps) / jumps);
  return frames;
}"""
_TRACED = ["devtools.timeline", "disabled-by-default-devtools.timeline", "toplevel"]


_Page = Callable[[int], str]
"""The HTML of a page, or of what it fetches from a step on."""


class _Request:
    """What templates ask of a request."""

    query_params: Mapping[str, str] = MappingProxyType({})


def build_prompt() -> Prompt:
    """A prompt of a million characters in two thousand pieces."""
    size = CHARACTERS // ORIGINS
    words = "the agent looks up an open claim and names the documents that are missing "
    line = (words * 14)[: size - 1] + "\n"
    names = ("template", "tools", "agent_scratchpad", "conversation_history", "question")
    spans = tuple(
        Span(0, at * size, (at + 1) * size, names[at % len(names)]) for at in range(ORIGINS)
    )
    message = Message("user", [{"text": line * ORIGINS}], spans)
    return Prompt("ORCHESTRATION", "bench", Text(), [message], (), {})


def build_steps() -> list[PastStep]:
    """A turn of five thousand steps."""
    steps = []
    for index in range(1, STEPS + 1):
        began = index * 1_000_000
        record = {
            "kind": "model",
            "stage": "ORCHESTRATION",
            "model": "bench",
            "content": [{"text": f"step {index} looks up a claim"}],
            "usage": (1_000, 20, 0, 0, 1),
            "began": began,
            "ended": began + 900_000,
        }
        steps.append(PastStep(index, record, index))
    return steps


def build_prompt_page() -> tuple[_Page, str]:
    """The inspector with the prompt, and the prompt's text."""
    prompt = build_prompt()
    view = build_prompt_view(prompt)
    step = {"index": 1, "stage": "ORCHESTRATION", "kind": "model", "name": "bench", "text": ""}
    usage = {"output_tokens": 1, "cache_read_tokens": 0}
    html = render(
        "prompt.html",
        request=_Request(),
        **_surroundings(),
        step={**step, "branch": "", "began": 0, "ended": 1, "usage": usage},
        count=1,
        record={"content": []},
        parsed={"pieces": [], "code": "", "reprompt": "", "notes": [], "raw": "", "response": {}},
        before=0,
        dollars=None,
        prompt={"inference": {}},
        template=None,
        lines=[],
        view=view,
    )
    return lambda first: html, prompt.messages[0]["content"][0]["text"]


def _render_turn(steps: Sequence[PastStep], first: int) -> str:
    view = build_turn_view(steps, first)
    return render(
        "turn.html",
        request=_Request(),
        **_surroundings(),
        totals=view.totals,
        costs=view.costs.as_dict(),
        milliseconds=view.milliseconds,
        view=view,
    )


def build_turn_page() -> tuple[_Page, str]:
    """The waterfall of the turn, and the text of all of its rows."""
    steps = build_steps()
    view = build_turn_view(steps, most=STEPS)
    rows = [row for group in view.groups for row in group.rows]
    text = "\n".join(f"{row.step.index} {row.label} {row.text}" for row in rows)
    render_from = cache(partial(_render_turn, steps))
    for first in range(1, STEPS + 1, ROWS):  # how long the server takes is another question
        render_from(first)
    return render_from, text


def _surroundings() -> dict[str, Any]:
    turn = {"id": "t", "question": "?", "text": "", "stop_reason": "end_turn"}
    changed = {"has_changed": False, "has_todays_prompts": False}
    agent = {"key": "bench", "name": "bench", "instruction": "", "server": ""}
    return {"agent": agent, "session": "s-1", "turn": {**turn, **changed}}


def _plain(text: str) -> _Page:
    html = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>plain</title>'
        '<link rel="stylesheet" href="/workbench/static/workbench.css">'
        f"<main><pre>{escape(text)}</pre></main></html>"
    )
    return lambda first: html


def _serve(pages: dict[str, _Page]) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # as uvicorn does, one connection for several requests

        def do_GET(self) -> None:
            address = urlsplit(self.path)
            name, query = address.path.rpartition("/")[2], parse_qs(address.query)
            static = send_static(name) if "/static/" in self.path else None
            kind = "text/html; charset=utf-8" if static is None else static.headers["content-type"]
            page = pages.get(name, lambda first: "")
            first = int(query.get("from", ["1"])[0])
            body = page(first).encode() if static is None else bytes(static.body)
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    return server


def _measure_ready(browser: Any, url: str) -> float:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(url)
    ready: float = page.evaluate(_READY)
    page.close()
    return ready


def _measure_work(browser: Any, url: str) -> dict[str, float]:
    """What the page's thread computes: time of the processor, which other programs do not change.

    The longest task of the thread says how long a frame takes at least.
    """
    page = browser.new_page(viewport={"width": 1280, "height": 900})

    def trace(work: Callable[[], Any]) -> tuple[Any, list[float]]:
        browser.start_tracing(page=page, categories=_TRACED)
        page.wait_for_timeout(_SETTLE)
        result = work()
        return result, _list_tasks(json.loads(browser.stop_tracing())["traceEvents"])

    _, loading = trace(lambda: (page.goto(url), page.evaluate(_READY)))
    frames, scrolling = trace(lambda: page.evaluate(_SCROLL, [_STEP, _JUMPS]))
    page.close()
    frames.sort()
    return {
        "open_cpu_ms": round(sum(loading)),
        "frames": len(frames),
        "frame_p95_ms": round(frames[int(len(frames) * 0.95)], 1),
        "frame_longest_ms": round(frames[-1], 1),
        "frame_cpu_ms": round(sum(scrolling) / len(frames), 1),
        "longest_task_cpu_ms": round(max(scrolling), 1),
    }


def _list_tasks(events: Sequence[Mapping[str, Any]]) -> list[float]:
    """The milliseconds of the processor that each task of a page's main thread took."""
    threads = {
        (one["pid"], one["tid"])
        for one in events
        if one["name"] == "thread_name" and one["args"].get("name") == "CrRendererMain"
    }
    return [
        one["tdur"] / 1_000
        for one in events
        if one["name"] == "RunTask" and "tdur" in one and (one["pid"], one["tid"]) in threads
    ]


def main() -> int:
    """Measures the pages that are named, or both, and writes what it found."""
    from playwright.sync_api import sync_playwright

    pages: dict[str, _Page] = {}
    makers: dict[str, Callable[[], tuple[_Page, str]]] = {
        "prompt": build_prompt_page,
        "trace": build_turn_page,
    }
    names = sys.argv[1:] or list(makers)
    for name in names:
        make = makers[name]
        pages[name], text = make()
        pages[f"plain-{name}"] = _plain(text)
    server = _serve(pages)
    base = f"http://127.0.0.1:{server.server_port}"
    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    found: dict[str, Any] = {"load": round(os.getloadavg()[0], 1)}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        for name in names:
            urls = {"page": f"{base}/{name}", "plain": f"{base}/plain-{name}"}
            ready: dict[str, list[float]] = {kind: [] for kind in urls}
            for _ in range(_TIMES):  # in turns, so that other work slows both
                for kind, url in urls.items():
                    ready[kind].append(_measure_ready(browser, url))
            usual = {kind: statistics.median(times) for kind, times in ready.items()}
            found[name] = {"ratio": round(usual["page"] / usual["plain"], 2)}
            for kind, url in urls.items():
                work = _measure_work(browser, url)
                found[name][kind] = {"ready_ms": round(usual[kind]), **work}
            print(f"{name}: {json.dumps(found[name])}", file=sys.stderr, flush=True)
        browser.close()
    server.shutdown()
    server.server_close()
    json.dump(found, sys.stdout, indent=2)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
