// Files are dropped, what they would become is shown, and a click writes it.
import { element, post } from "./page.js";

const form = document.getElementById("form");
const at = form.dataset.at;
const drop = document.getElementById("drop");
const field = document.getElementById("files");
const preview = document.getElementById("preview");
const complaint = document.getElementById("complaint");
const status = document.getElementById("status");
let files = [];
let agent = "";

function take(given) {
  files = [...given];
  agent = "";
  const size = files.reduce((sum, file) => sum + file.size, 0);
  const fits = files.length <= Number(form.dataset.most) && size <= Number(form.dataset.bytes);
  const names = files.map((file) => file.name).join(", ");
  document.getElementById("chosen").textContent = names;
  document.getElementById("look").disabled = !files.length || !fits;
  preview.replaceChildren();
  complain(fits ? "" : `At most ${form.dataset.most} files and ${Number(form.dataset.bytes).toLocaleString("en")} bytes are taken.`);
  if (files.length && fits) look();
}

function complain(text) {
  complaint.textContent = text;
  complaint.classList.toggle("hidden", !text);
}

function read(file) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done({ name: file.name, data: reader.result.split(",")[1] || "" });
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(file);
  });
}

function parameters() {
  const found = {};
  for (const line of document.getElementById("parameters").value.split("\n")) {
    const cut = line.indexOf("=");
    if (cut > 0) found[line.slice(0, cut).trim()] = line.slice(cut + 1).trim();
  }
  return found;
}

async function send(digest) {
  const body = {
    files: await Promise.all(files.map(read)),
    into: document.getElementById("into").value,
    stage: document.getElementById("stage").value,
    parameters: parameters(),
    agent,
    digest,
  };
  return (await post(at, body)).json();
}

async function look() {
  complain("");
  try {
    show(await send(""));
  } catch (error) {
    preview.replaceChildren();
    complain(error.message);
  }
}

const marks = { agent: "", came: "✓", decide: "!", none: "–" };

function showRow(row) {
  return element("tr", { class: row.kind },
    element("td", {}, marks[row.kind]),
    element("th", { scope: "row" }, row.subject),
    element("td", {}, row.text, ...(row.place ? [" ", element("span", { class: "quiet small" }, row.place)] : []),
      ...(row.way ? [element("p", { class: "small way" }, row.way)] : [])));
}

function showFinding(one) {
  const place = one.file ? `${one.file}${one.line ? `:${one.line}` : ""} ` : "";
  return element("div", { class: "finding" }, element("span", { class: one.severity }, one.severity),
    element("div", {}, element("code", {}, place), one.message, ...(one.suggestion ? [element("span", { class: "quiet" }, ` (${one.suggestion})`)] : [])));
}

const kinds = { "+": "add", "-": "del" };

function showFile(one) {
  const lines = one.lines.map(([sign, text]) => element("pre", { class: kinds[sign] || "" }, `${sign} ${text}`));
  if (one.more) lines.push(element("p", { class: "quiet small" }, `and ${one.more} more lines`));
  return element("details", { open: one.kind !== "new" },
    element("summary", {}, element("code", {}, one.path), " ", element("span", { class: `tag ${one.kind === "new" ? "good" : "bad"}` }, one.kind), " ",
      element("span", { class: "quiet small num" }, `+${one.added} −${one.removed}`)),
    element("div", { class: "diff" }, ...lines));
}

function panel(title, ...inside) {
  return element("section", { class: "card panel" }, element("header", {}, element("h2", {}, title)), element("div", { class: "body" }, ...inside));
}

function choose(found) {
  const all = element("option", { value: "", selected: !found.agent }, "all");
  const each = found.choices.map((one) => element("option", { value: one.key, selected: one.key === found.agent }, `${one.name} (${one.key})`));
  const list = element("select", { onchange: (event) => { agent = event.target.value; look(); } }, all, ...each);
  return element("label", {}, `The file has ${found.choices.length} agents; take`, list);
}

function show(found) {
  const parts = [];
  if (found.kind === "agents") {
    if (found.choices.length > 1) parts.push(panel("Agents", choose(found)));
    const table = element("table", { class: "rows" }, element("tbody", {}, ...found.rows.map(showRow)));
    parts.push(panel(`From ${found.format}`, element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "What comes over" }, table)));
  } else {
    const inputs = found.inputs.length ? `Its inputs: ${found.inputs.join(", ")}` : found.stage ? `The template of ${found.stage}` : "It has no inputs.";
    parts.push(panel(`A template: ${found.format}`, element("p", {}, inputs), ...found.findings.map(showFinding)));
  }
  const folders = [...new Set(found.files.map((one) => one.folder))];
  const write = element("button", { class: "main", type: "button", onclick: () => confirmWrite(found, write) }, "Write it");
  const files = found.files.length ? folders.flatMap((folder) => [element("p", { class: "quiet small" }, folder), ...found.files.filter((one) => one.folder === folder).map(showFile)])
    : [element("p", {}, "Everything is there as it is: there is nothing to write.")];
  const section = panel(`${found.files.length} file${found.files.length === 1 ? "" : "s"}`, ...files);
  if (found.files.length) section.querySelector("header").append(write);
  parts.push(section);
  preview.replaceChildren(...parts);
  status.textContent = `${found.files.length} files would be written.`;
}

async function confirmWrite(found, button) {
  button.disabled = true;
  try {
    const done = await send(found.digest);
    const links = done.agents.map((one) => element("a", { class: "button", href: `${form.dataset.agents}${encodeURIComponent(one.key)}` }, one.name));
    const heading = element("h2", { tabindex: "-1" }, "Written");
    preview.replaceChildren(element("section", { class: "card panel" }, element("header", {}, heading), element("div", { class: "body tools" }, ...links)));
    heading.focus();
    status.textContent = "Written.";
  } catch (error) {
    complain(error.message);
    button.disabled = false;
  }
}

field.addEventListener("change", () => take(field.files));
form.addEventListener("submit", (event) => {
  event.preventDefault();
  look();
});
for (const id of ["into", "stage"]) document.getElementById(id).addEventListener("change", () => files.length && look());
for (const kind of ["dragenter", "dragover"]) {
  drop.addEventListener(kind, (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
}
for (const kind of ["dragleave", "drop"]) drop.addEventListener(kind, () => drop.classList.remove("over"));
// A file that misses the field must not take the place of the page.
for (const kind of ["dragover", "drop"]) addEventListener(kind, (event) => event.preventDefault());
drop.addEventListener("drop", (event) => {
  event.preventDefault();
  take(event.dataTransfer.files);
});
