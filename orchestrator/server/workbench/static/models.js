// Weights are fetched after a click, and the page follows that.
import { lines, post } from "./page.js";

function show(box, state) {
  const bar = box.querySelector("progress");
  bar.max = state.of || 1;
  bar.value = state.done;
  const megabytes = (bytes) => Math.round(bytes / 1e6).toLocaleString("en");
  const text = `${state.text}: ${megabytes(state.done)} of ${megabytes(state.of)} MB`;
  box.querySelector("[role=status]").textContent = state.stopping ? `${text} – it stops` : text;
}

function fail(box, message) {
  const note = box.querySelector(".note.hidden") || box.querySelector(".note");
  note.textContent = message;
  note.classList.remove("hidden");
}

function turn(box, running) {
  box.querySelector(".going").classList.toggle("hidden", !running);
  box.querySelector("[data-act=pull]").classList.toggle("hidden", running);
  box.querySelector("[data-act=stop]").classList.toggle("hidden", !running);
}

async function watch(box) {
  turn(box, true);
  let last = null;
  for await (const state of lines(await post(`${box.dataset.at}/watch`, {}))) show(box, (last = state));
  if (last?.error) {
    turn(box, false);
    fail(box, last.error);
  } else location.reload();
}

for (const box of document.querySelectorAll(".model")) {
  const act = (name, work) => box.querySelector(`[data-act=${name}]`)?.addEventListener("click", () => work().catch((error) => fail(box, error.message)));
  act("pull", async () => {
    await post(`${box.dataset.at}/pull`, {});
    await watch(box);
  });
  act("stop", () => post(`${box.dataset.at}/stop`, {}));
  if ("running" in box.dataset) watch(box).catch((error) => fail(box, error.message));
}
