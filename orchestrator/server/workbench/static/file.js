// A template or a script is rendered and run with the inputs of a form.
import { element, lines, post } from "./page.js";

const form = document.getElementById("form");
const at = form.dataset.at;
const out = document.getElementById("out");
const runButton = document.getElementById("run");
const stop = document.getElementById("stop");
let running = null;

function inputs() {
  return Object.fromEntries([...form.querySelectorAll("[data-input]")].map((one) => [one.dataset.input, one.value]));
}

function body(more = {}) {
  return { inputs: inputs(), model: document.getElementById("model").value.trim(), ...more };
}

function complain(text) {
  const box = document.getElementById("complaint");
  box.textContent = text;
  box.classList.toggle("hidden", !text);
}

function showFinding(one) {
  const place = one.line ? `${one.name || one.file}:${one.line} ` : "";
  return element("div", { class: "finding" }, element("span", { class: one.severity }, one.severity),
    element("div", {}, element("code", {}, place), one.message, one.suggestion ? ` (${one.suggestion})` : ""));
}

async function render() {
  complain("");
  try {
    const found = await (await post(`${at}/render`, body())).json();
    const preview = document.getElementById("preview");
    // The server's own page: every text in it is escaped there.
    preview.replaceChildren(...new DOMParser().parseFromString(found.html, "text/html").body.children);
    document.getElementById("findings").replaceChildren(...(found.findings.length ? found.findings.map(showFinding) : ["Nothing to complain about."]));
    const place = document.getElementById("place");
    place.textContent = found.place;
    place.classList.toggle("hidden", !found.place);
  } catch (error) {
    complain(error.message);
  }
}

function spell(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

class Run {
  constructor() {
    this.events = element("ol", { class: "events", "aria-label": "What happened" });
    this.answer = element("pre", { class: "answer" });
    this.foot = element("div", { class: "foot", role: "status" });
    this.box = element("article", { class: "turn running" }, this.events, this.answer, this.foot);
    out.replaceChildren(this.box);
  }

  say(line, ...parts) {
    this.events.append(element("li", {}, element("span", { class: "line" }, line ? String(line) : ""), element("span", {}, ...parts)));
  }

  flow(event) {
    if (event.kind === "token") this.answer.append(event.text ?? "");
    else if (event.kind === "statement_start") {
      this.answer.replaceChildren();
      this.say(event.line, element("code", {}, event.statement));
    } else if (event.kind === "variable_set") this.say("", element("code", { class: "quiet" }, `${event.name} = ${spell(event.value)}`));
    else if (event.kind === "tool_call" || event.kind === "tool_result") this.say("", element("code", { class: "quiet" }, `${event.kind === "tool_call" ? "calls" : "gives"} ${spell(event.name ?? "")} ${spell(event.arguments ?? event.result ?? "")}`));
    else if (event.kind === "warning") this.say(event.line, element("span", { class: "tag" }, "warning"), ` ${event.text}`);
  }

  step({ kind, value }) {
    if (kind === "rationale" && value.text) this.say("", element("span", { class: "quiet" }, value.text));
    const call = value.actionGroupInvocationInput;
    if (kind === "invocationInput" && call) this.say("", element("code", {}, call.function || call.apiPath));
  }

  end(event) {
    const output = "output" in event ? event.output : event.text;
    this.answer.textContent = output === null || output === undefined ? "" : spell(output);
    this.foot.append(element("span", { class: "tag" }, event.waits_for ? "waits" : event.stop_reason || "ended"),
      element("span", { class: "num" }, `${event.usage.input_tokens} in, ${event.usage.output_tokens} out`));
    if (event.state) this.ask(event);
  }

  ask(event) {
    const title = event.waits_for === "user" ? event.question || "It asks you" : `It waits at line ${event.line}: ${event.statement}`;
    const field = element("textarea", { class: "code", rows: 2, "aria-label": "Your answer" });
    const go = (more) => {
      box.remove();
      follow(`${at}/resume`, { state: event.state, model: body().model, ...more });
    };
    const buttons = event.waits_for === "breakpoint"
      ? [["Go on", { mode: "continue" }], ["One step", { mode: "step" }]].map(([name, more]) => element("button", { type: "button", onclick: () => go(more) }, name))
      : [element("button", { class: "main", type: "button", onclick: () => go(event.waits_for === "user" ? { text: field.value } : { results: field.value }) }, "Send")];
    const box = element("div", { class: "waits", role: "group", "aria-label": title }, element("h2", {}, title),
      ...(event.waits_for === "breakpoint" ? [] : [field]), element("div", { class: "tools" }, ...buttons));
    this.box.insertBefore(box, this.foot);
    box.querySelector("textarea, button").focus();
  }
}

async function follow(address, what) {
  complain("");
  const run = new Run();
  running = new AbortController();
  runButton.classList.add("hidden");
  stop.classList.remove("hidden");
  try {
    for await (const event of lines(await post(address, what, { signal: running.signal }))) {
      if (event.type === "flow") run.flow(event);
      else if (event.type === "text") run.answer.append(event.text);
      else if (event.type === "step") run.step(event);
      else if (event.type === "end") run.end(event);
      else if (event.type === "error") {
        run.box.classList.add("failed");
        run.foot.append(element("span", { class: "tag bad" }, "failed"), event.message);
      }
    }
  } catch (error) {
    run.foot.append(error.name === "AbortError" ? "You stopped it." : error.message);
  }
  run.box.classList.remove("running");
  runButton.classList.remove("hidden");
  stop.classList.add("hidden");
  running = null;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  render();
});
runButton.addEventListener("click", () => follow(`${at}/run`, body()));
stop.addEventListener("click", () => running?.abort());
