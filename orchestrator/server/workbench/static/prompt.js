// The inspector: an origin's pieces are stepped through, and what one points at is named.
import "./page.js";

const prompt = document.querySelector(".prompt");
const where = document.getElementById("where");
const usual = where?.textContent;
let place = -1;

function piecesOf(origin) {
  return [...prompt.querySelectorAll(`[data-o="${CSS.escape(origin)}"]`)];
}

function name(button) {
  where.textContent = button.dataset.text;
}

function choose(button) {
  const origin = button.dataset.origin;
  const same = button.getAttribute("aria-pressed") === "true";
  for (const other of document.querySelectorAll(".legend button")) other.setAttribute("aria-pressed", "false");
  button.setAttribute("aria-pressed", "true");
  prompt.dataset.only = button.dataset.colour;
  const pieces = piecesOf(origin);
  place = same && pieces.length ? (place + 1) % pieces.length : 0;
  prompt.querySelector(".here")?.classList.remove("here");
  name(button);
  const piece = pieces[place];
  if (!piece) return;
  piece.closest("details").open = true;
  piece.classList.add("here");
  piece.scrollIntoView({ block: "center" });
  where.textContent = `${button.dataset.text} Piece ${place + 1} of ${pieces.length}.`;
}

function clear() {
  delete prompt.dataset.only;
  prompt.querySelector(".here")?.classList.remove("here");
  for (const button of document.querySelectorAll(".legend button")) button.setAttribute("aria-pressed", "false");
  where.textContent = usual;
  place = -1;
}

function buttonOf(target) {
  const piece = target.closest?.("[data-o]");
  return piece && document.querySelector(`.legend [data-origin="${CSS.escape(piece.dataset.o)}"]`);
}

if (prompt && where) {
  for (const button of document.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => choose(button));
    button.addEventListener("focus", () => name(button));
  }
  for (const pane of document.querySelectorAll(".prompt, .template")) {
    pane.addEventListener("mouseover", (event) => {
      const button = buttonOf(event.target);
      if (button && !prompt.dataset.only) name(button);
    });
    pane.addEventListener("click", (event) => {
      const button = buttonOf(event.target);
      if (button && !getSelection().toString()) choose(button);
    });
  }
  document.addEventListener("keydown", (event) => event.key === "Escape" && clear());
  document.getElementById("fold")?.addEventListener("change", (event) => {
    for (const one of prompt.querySelectorAll("details.same")) one.open = !event.target.checked;
  });
}
