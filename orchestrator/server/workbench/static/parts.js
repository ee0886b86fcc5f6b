// A step's trace parts as JSON, below its row: fetched when they are asked for.
import { element } from "./page.js";

const longest = 200000; // characters of a part; its own page has a link to all

async function open(link) {
  const panel = element("div", { class: "parts", role: "region", "aria-label": link.getAttribute("aria-label") });
  link.closest(".row").append(panel);
  try {
    const answer = await fetch(link.href, { headers: { Accept: "application/json" } });
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.message);
    const texts = found.parts.map((one) => JSON.stringify(one, null, 2));
    panel.append(...texts.map((text) => element("pre", { tabindex: 0 }, text.length > longest ? `${text.slice(0, longest)}…` : text)));
    if (!texts.length) panel.append("Bedrock's trace has no part about this step.");
    panel.append(element("p", { class: "tools" },
      element("button", { type: "button", onclick: () => navigator.clipboard.writeText(`[${texts.join(",\n")}]`) }, "Copy"),
      element("a", { class: "button", href: link.href }, "Open as a page")));
  } catch (error) {
    panel.append(element("p", { class: "note bad" }, error.message));
  }
}

document.querySelector(".wf")?.addEventListener("click", (event) => {
  const link = event.target.closest(".json");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const panel = link.closest(".row").querySelector(".parts");
  link.setAttribute("aria-expanded", String(!panel));
  panel ? panel.remove() : open(link);
});
