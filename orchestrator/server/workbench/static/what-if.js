// A model call with something changed: its prompt at once, then the run from there.
import { element, lines, post, spell, spellArguments } from "./page.js";

const bench = document.getElementById("bench");
const at = bench.dataset.at;
const form = document.getElementById("form");
const template = document.getElementById("template");
const instruction = document.getElementById("instruction");
const findings = document.getElementById("findings");
const preview = document.getElementById("preview");
const out = document.getElementById("out");
const run = document.getElementById("run");
const stop = document.getElementById("stop");
const difference = document.getElementById("difference");
const results = [...form.querySelectorAll("[data-result]")];
let waits = 0;
let running = null;
let digest = "";

function changes() {
  const changed = (field) => (field.value === field.defaultValue ? undefined : field.value);
  const other = Object.fromEntries(results.filter((one) => changed(one) !== undefined)
    .map((one) => [one.dataset.result, one.value]));
  return {
    template: template.readOnly ? undefined : template.value,
    instruction: changed(instruction),
    model: document.getElementById("model").value || undefined,
    results: other,
    actions: document.getElementById("actions").value,
  };
}

function showFindings(found) {
  findings.replaceChildren(...found.map((one) =>
    element("div", { class: "finding" },
      element("span", { class: one.severity }, one.severity),
      element("span", {}, `${one.line ? `line ${one.line}: ` : ""}${one.message}${one.suggestion ? ` (${one.suggestion})` : ""}`))));
}

async function update() {
  const own = ++waits;
  try {
    const found = await (await post(`${at}/preview`, changes())).json();
    if (own !== waits) return; // another one was asked for meanwhile
    showFindings(found.findings);
    if (found.html) {
      const page = new DOMParser().parseFromString(found.html, "text/html");
      preview.replaceChildren(...page.body.children);
    }
  } catch (error) {
    if (own === waits) showFindings([{ severity: "error", message: error.message }]);
  }
  bench.dataset.shown = String(own);
}

let timer = 0;
form.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(update, 250);
});

function ask(event, box, session) {
  const result = element("textarea", { class: "code", rows: 2, "aria-label": `Result of ${event.name}` });
  const decide = async (decision) => {
    card.remove();
    try {
      await post(`${bench.dataset.sessions}${session}/decide`, { id: event.id, ...decision });
    } catch (error) {
      showFindings([{ severity: "error", message: error.message }]);
    }
  };
  const card = element("div", { class: "waits", role: "group", "aria-label": "A call that was not recorded" },
    element("h2", {}, "This call was not recorded"),
    element("p", {}, element("span", { class: "tag" }, spell(event.agent)), " ", element("code", {}, spell(event.name)), " ",
      spellArguments(Object.entries(event.arguments))),
    result,
    element("div", { class: "tools" },
      element("button", { class: "main", type: "button", onclick: () => decide({ text: result.value }) }, "Use this result"),
      element("button", { type: "button", onclick: () => decide({ run: true }) }, "Call it")));
  box.append(card);
  result.focus();
}

async function discard(session, box) {
  try {
    await post(`${bench.dataset.sessions}${session}/delete`, {});
    box.remove();
  } catch (error) {
    showFindings([{ severity: "error", message: error.message }]);
  }
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (running) return;
  running = new AbortController();
  run.disabled = true;
  stop.classList.remove("hidden");
  const answer = element("p", { class: "answer" });
  const steps = element("ul", { class: "calls" });
  const foot = element("div", { class: "foot" });
  const box = element("article", { class: "turn running" }, element("h2", {}, "Run from here"), steps, answer, foot);
  out.replaceChildren(box);
  let session = "";
  let stopped = false;
  try {
    const reply = await post(`${at}/run`, changes(), { signal: running.signal });
    for await (const one of lines(reply)) {
      if (one.type === "forked") session = one.session;
      else if (one.type === "text") answer.append(one.text);
      else if (one.type === "asks") ask(one, box, session);
      else if (one.type === "step" && one.kind === "invocationInput") {
        answer.replaceChildren();
        const call = one.value.actionGroupInvocationInput;
        if (call) steps.append(element("li", {}, element("code", {}, `${call.actionGroupName}::${call.function || call.apiPath}`)));
      } else if (one.type === "error") foot.append(element("span", { class: "tag bad" }, "failed"), one.message);
      else if (one.type === "end") {
        answer.textContent = one.text;
        foot.append(element("span", { class: "tag" }, one.stop_reason));
      }
    }
  } catch (error) {
    stopped = true; // the server keeps nothing of it
    foot.append(element("span", { class: "tag bad" }, "failed"),
      error.name === "AbortError" ? "You stopped it: nothing of it is kept." : error.message);
  }
  box.querySelectorAll(".waits").forEach((card) => card.remove());
  if (session && !stopped) {
    foot.append(element("button", { class: "plain", type: "button", onclick: () => discard(session, box) }, "Discard this run"),
      element("a", { href: `${bench.dataset.compare}&right=${encodeURIComponent(session)}` }, "Compare side by side"),
      element("a", { href: bench.dataset.sessions + session }, session));
  }
  box.classList.remove("running");
  run.disabled = false;
  stop.classList.add("hidden");
  running = null;
});

stop.addEventListener("click", () => running?.abort());

document.getElementById("save").addEventListener("click", async () => {
  try {
    const found = await (await post(`${at}/save`, { template: template.value })).json();
    digest = found.digest;
    document.getElementById("file").textContent = found.file;
    document.getElementById("lines").replaceChildren(...found.difference.map(([sign, line]) =>
      element("pre", { class: { "+": "add", "-": "del" }[sign] || "" }, `${sign} ${line}`)));
    if (!found.difference.length) document.getElementById("lines").append(element("p", { class: "empty" }, "Nothing was changed."));
    difference.classList.remove("hidden");
    difference.focus();
  } catch (error) {
    showFindings([{ severity: "error", message: error.message }]);
  }
});

document.getElementById("write").addEventListener("click", async () => {
  try {
    const found = await (await post(`${at}/save`, { template: template.value, digest })).json();
    showFindings([{ severity: "info", message: `Saved to ${found.file}.` }, ...found.findings]);
    difference.classList.add("hidden");
  } catch (error) {
    showFindings([{ severity: "error", message: error.message }]);
  }
});

document.getElementById("dismiss").addEventListener("click", () => difference.classList.add("hidden"));
document.getElementById("reset").addEventListener("click", () => {
  form.reset();
  update();
});

update();
