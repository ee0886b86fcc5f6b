// A run as it goes on; when it has ended, the page is its figures.
import { element, lines, post } from "./page.js";

const box = document.getElementById("running");
const signs = { passed: "✓", failed: "✗", error: "!" };

function showVariant(one) {
  const cells = [one.done, one.of, one.passed, one.failed, one.error];
  return element("tr", {}, element("th", { scope: "row" }, one.name),
    ...cells.map((cell) => element("td", { class: "number" }, String(cell))));
}

function showResult(one) {
  const facts = [one.variant, one.repetition ? `#${one.repetition}` : "", `${one.seconds} s`].filter(Boolean);
  return element("li", {}, element("div", { class: "row" },
    element("a", { href: `${box.dataset.at}/results/${one.key}` }, one.case),
    element("span", { class: `tag ${one.status === "passed" ? "good" : "bad"}` }, `${signs[one.status]} ${one.status}`),
    element("p", {}, facts.join(" · "))));
}

function show(state) {
  const failed = state.variants.reduce((sum, one) => sum + one.failed + one.error, 0);
  const stops = state.stopping ? " – it stops when the turns that run have ended" : "";
  document.getElementById("status").textContent = `${state.done} of ${state.of}, ${failed} did not pass${stops}`;
  document.getElementById("bar").value = state.done;
  document.getElementById("variants").replaceChildren(...state.variants.map(showVariant));
  document.getElementById("last").replaceChildren(...state.last.map(showResult));
}

async function watch() {
  for await (const state of lines(await post(`${box.dataset.at}/watch`, {}))) {
    show(state);
    if (!state.running) location.reload();
  }
}

if (box) {
  document.getElementById("stop").addEventListener("click", async (event) => {
    event.target.disabled = true;
    await post(`${box.dataset.at}/stop`, {});
  });
  watch().catch((error) => (document.getElementById("status").textContent = error.message));
}
