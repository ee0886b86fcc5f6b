// A conversation: the answer as it comes, the calls as they happen, and what waits for the user.
import { element, lines, post, spell, spellArguments } from "./page.js";
import { askFor } from "./result-form.js";

const chat = document.getElementById("chat");
const at = chat.dataset.at;
const composer = document.getElementById("composer");
const question = document.getElementById("question");
const send = document.getElementById("send");
const stop = document.getElementById("stop");
const status = document.getElementById("status");
let running = null;

function nameOf(value) {
  const call = value.actionGroupInvocationInput || {};
  return [call.verb?.toUpperCase(), call.actionGroupName, call.function || call.apiPath].filter(Boolean).join("::");
}

function argumentsOf(call) {
  const body = Object.values(call.requestBody?.content || {}).flat();
  const all = [...(call.parameters || []), ...body.flatMap((one) => one.properties || one)];
  return spellArguments(all.map((one) => [one.name, one.value]));
}

class Turn {
  constructor(asked) {
    document.getElementById("none")?.remove();
    this.thinking = element("details", { class: "hidden" }, element("summary", {}, "Thinking"));
    this.calls = element("ul", { class: "calls", "aria-label": "Calls" });
    this.answer = element("p", { class: "answer" });
    this.foot = element("div", { class: "foot" });
    this.box = element("article", { class: "turn running" }, element("p", { class: "asked" }, asked),
      this.thinking, this.calls, this.answer, this.foot);
    chat.append(this.box);
    this.box.scrollIntoView({ block: "end" });
  }

  think(text) {
    this.thinking.classList.remove("hidden");
    this.thinking.append(element("p", { class: "thought" }, text));
  }

  call(name, text, agent) {
    const told = typeof text === "string" ? element("code", { class: "quiet" }, spell(text)) : text;
    const line = element("li", {}, element("code", {}, spell(name)), " ", told);
    if (agent) line.prepend(element("span", { class: "tag" }, agent), " ");
    this.calls.append(line);
  }

  step({ kind, value, agent }) {
    if (kind === "rationale" && value.text) this.think(value.text);
    if (kind !== "invocationInput") return;
    this.answer.replaceChildren(); // what was said before a call is no answer
    const call = value.actionGroupInvocationInput;
    if (call) this.call(nameOf(value), argumentsOf(call), agent);
    const search = value.knowledgeBaseLookupInput;
    if (search) this.call(search.knowledgeBaseId, search.text, agent);
    const other = value.agentCollaboratorInvocationInput;
    if (other) this.call(other.agentCollaboratorName, other.input?.text || "", agent);
  }

  end(event) {
    this.answer.textContent = event.text;
    this.foot.append(element("span", { class: "tag" }, event.stop_reason),
      element("span", { class: "num" }, `${event.usage.input_tokens} in, ${event.usage.output_tokens} out`));
  }

  fail(message) {
    this.box.classList.add("failed");
    this.foot.append(element("span", { class: "tag bad" }, "failed"), message);
    status.textContent = `failed: ${message}`;
  }
}

async function run(asked, body) {
  const turn = new Turn(asked);
  running = new AbortController();
  send.classList.add("hidden");
  stop.classList.remove("hidden");
  status.textContent = "The agent is at work.";
  let waits = false;
  let ended = false;
  try {
    const answer = await post(`${at}/ask`, body, { signal: running.signal });
    for await (const event of lines(answer)) {
      if (event.type === "text") turn.answer.append(event.text);
      else if (event.type === "step") turn.step(event);
      else if (event.type === "waits") waits = true;
      else if (event.type === "files") event.files.forEach((one) => turn.call(one.name, `${one.size} bytes`));
      else if (event.type === "error") {
        turn.fail(event.message);
        ended = true;
      } else if (event.type === "end") {
        turn.end(event);
        ended = true;
        status.textContent = event.text || "The agent waits for you.";
      }
    }
  } catch (error) {
    turn.fail(error.name === "AbortError" ? "You stopped it." : error.message);
  }
  turn.box.classList.remove("running");
  send.classList.remove("hidden");
  stop.classList.add("hidden");
  running = null;
  if (ended) await refresh(turn.box);
  // Who is asked for something is led there.
  const first = chat.querySelector(".waits :is(input, select, textarea, button)");
  (waits && first ? first : question).focus();
}

// The turn as the server tells it, with the links to its steps.
async function refresh(box) {
  const page = new DOMParser().parseFromString(await (await fetch(location.href)).text(), "text/html");
  const known = page.querySelectorAll("#chat > .turn").length;
  // A question that was refused began no turn: why it was stands in its box alone.
  if (box.classList.contains("failed") && known < chat.querySelectorAll(".turn").length) return;
  chat.replaceChildren(...page.getElementById("chat").children);
  prepare();
  chat.lastElementChild?.scrollIntoView({ block: "end" });
}

// What was given before and fits on no line of its field.
const kept = {};

function fill(id, given) {
  const isLine = ([name, value]) => name && name === name.trim() && !/[=\n]/.test(name) && !/[\r\n]/.test(value);
  const all = Object.entries(given || {});
  kept[id] = Object.fromEntries(all.filter((one) => !isLine(one)));
  document.getElementById(id).value = all.filter(isLine).map(([name, value]) => `${name}=${value}`).join("\n");
}

function pairs(id) {
  const found = { ...kept[id] };
  for (const line of document.getElementById(id).value.split("\n")) {
    const cut = line.indexOf("=");
    if (cut > 0) found[line.slice(0, cut).trim()] = line.slice(cut + 1);
  }
  return found;
}

function read(file) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done({ name: file.name, type: file.type, data: reader.result.split(",")[1] || "" });
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(file);
  });
}

async function ask(text) {
  const files = await Promise.all([...document.getElementById("files").files].map(read));
  document.getElementById("files").value = "";
  document.getElementById("files-note")?.remove();
  const attributes = pairs("attributes");
  await run(text, { question: text, attributes, prompt_attributes: pairs("prompt-attributes"), files });
}

async function fork(turn, asked) {
  try {
    const { session, ...given } = await (await post(`${at}/fork`, { turn })).json();
    const next = new URL(`${at.slice(0, at.lastIndexOf("/"))}/${session}`, location);
    sessionStorage.setItem("ask", JSON.stringify({ at: next.pathname, ...asked, ...given }));
    location.assign(next);
  } catch (error) {
    status.textContent = error.message;
    alert(error.message);
  }
}

function prepare() {
  for (const box of chat.querySelectorAll("[data-waits]")) box.replaceWith(askFor(JSON.parse(box.dataset.waits), run));
}

chat.addEventListener("click", (event) => {
  const act = event.target.dataset?.act;
  const turn = event.target.closest(".turn");
  if (!act || !turn || running) return;
  fork(turn.dataset.turn, { question: turn.querySelector(".asked").textContent, now: act === "retry" });
});

composer.addEventListener("submit", (event) => {
  event.preventDefault();
  const text = question.value;
  if (!text.trim() || running) return;
  question.value = "";
  ask(text);
});

question.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    composer.requestSubmit();
  }
});

stop.addEventListener("click", () => running?.abort());

prepare();
const left = JSON.parse(sessionStorage.getItem("ask") || "null");
if (left && left.at === location.pathname) {
  sessionStorage.removeItem("ask");
  fill("attributes", left.attributes);
  fill("prompt-attributes", left.prompt_attributes);
  if (left.now && !left.files?.length) ask(left.question);
  else {
    question.value = left.question;
    if (left.files?.length) {
      const text = `The question came with files (${left.files.join(", ")}), which a page cannot send again: choose them again, or send it without.`;
      document.getElementById("files").closest("details").open = true;
      composer.prepend(element("p", { class: "note", id: "files-note" }, spell(text)));
    }
    question.focus();
  }
} else question.focus();
