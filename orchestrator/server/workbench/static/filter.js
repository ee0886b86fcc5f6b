// Rows that do not fit are hidden; the address keeps what was asked for, so that a link shows it.
import "./page.js";

const words = document.getElementById("words");
const failed = document.getElementById("failed");
const count = document.getElementById("shown");
const rows = [...document.querySelectorAll(".wf .row")];
const texts = rows.map((row) => row.textContent.toLowerCase());

function apply() {
  const wanted = words.value.trim().toLowerCase();
  let shown = 0;
  rows.forEach((row, index) => {
    const fits = texts[index].includes(wanted) && (!failed.checked || row.classList.contains("bad"));
    row.classList.toggle("hidden", !fits);
    shown += fits;
  });
  count.textContent = shown === rows.length ? "" : `${shown} of ${rows.length}`;
  const query = new URLSearchParams(location.search);
  wanted ? query.set("q", wanted) : query.delete("q");
  failed.checked ? query.set("failed", "1") : query.delete("failed");
  const text = query.toString();
  history.replaceState(null, "", location.pathname + (text ? `?${text}` : ""));
}

const query = new URLSearchParams(location.search);
words.value = query.get("q") || "";
failed.checked = query.get("failed") === "1";
words.addEventListener("input", apply);
failed.addEventListener("change", apply);
if (words.value || failed.checked) apply();
