// Rows that do not fit are hidden; the address keeps what was asked for, so that a link shows it.
// Further steps are fetched as one comes near them, and all of them before one filters.
import "./page.js";

const words = document.getElementById("words");
const failed = document.getElementById("failed");
const count = document.getElementById("shown");
const list = document.querySelector(".wf");
const more = document.getElementById("more");
const atOnce = 1000; // rows that the server sends for one request
const groupsAtOnce = 4; // that are added in one frame
let loading = null;
let asked = 0;

// A plain box costs a frame half of what a picture does, and takes its place from here alone.
function drawTimes(page) {
  for (const one of page.querySelectorAll(".wf .time span")) {
    one.style.marginLeft = `${one.dataset.x}%`;
    one.style.width = `${one.dataset.width}%`;
  }
}

async function append(address) {
  const answer = await fetch(address, { headers: { Accept: "text/html" } });
  if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  drawTimes(page);
  const groups = [...page.querySelectorAll(".wf > .g")];
  for (let at = 0; at < groups.length; at += groupsAtOnce) {
    list.append(...groups.slice(at, at + groupsAtOnce));
    await new Promise(requestAnimationFrame); // so that no frame is long
  }
  const next = page.getElementById("more");
  if (!next) return more.remove();
  more.href = next.href;
  more.textContent = next.textContent;
}

// One request at a time: each says where the next one begins.
function load(rows = "") {
  loading ??= append(more.href + rows).finally(() => { loading = null; });
  return loading;
}

async function loadAll() {
  while (more?.isConnected) await load(`&rows=${atOnce}`);
}

const near = new IntersectionObserver(async (entries) => {
  if (!entries.some((one) => one.isIntersecting)) return;
  near.unobserve(more);
  try {
    await load();
  } catch {
    return; // what is left is a link as before
  }
  if (more.isConnected) near.observe(more);
}, { rootMargin: "0px 0px 6000px" });
if (more) near.observe(more);

async function apply() {
  const own = ++asked;
  const wanted = words.value.trim().toLowerCase();
  const query = new URLSearchParams(location.search);
  wanted ? query.set("q", wanted) : query.delete("q");
  failed.checked ? query.set("failed", "1") : query.delete("failed");
  const text = query.toString();
  history.replaceState(null, "", location.pathname + (text ? `?${text}` : ""));
  let problem = "";
  if (wanted || failed.checked) await loadAll().catch((error) => { problem = error.message; });
  if (own !== asked) return; // something else was asked for meanwhile
  const rows = [...list.querySelectorAll(".row")];
  let shown = 0;
  for (const row of rows) {
    const fits = row.textContent.toLowerCase().includes(wanted) && (!failed.checked || row.classList.contains("bad"));
    row.classList.toggle("hidden", !fits);
    shown += fits;
  }
  list.classList.toggle("hidden", rows.length > 0 && !shown);
  count.textContent = problem || (shown === rows.length ? "" : shown ? `${shown} of ${rows.length}` : "No step fits.");
}

drawTimes(document);
const query = new URLSearchParams(location.search);
words.value = query.get("q") || "";
failed.checked = query.get("failed") === "1";
words.addEventListener("input", apply);
failed.addEventListener("change", apply);
if (words.value || failed.checked) apply();
