// What every page has: the switch between light and dark, and requests that change something.

const dark = matchMedia("(prefers-color-scheme: dark)");
const button = document.getElementById("theme");

function isDark() {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : dark.matches;
}

button?.addEventListener("click", () => {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("theme", theme);
});

export async function post(address, body, options = {}) {
  const answer = await fetch(address, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Workbench": "1" },
    body: JSON.stringify(body),
    ...options,
  });
  if (!answer.ok) {
    const found = await answer.json().catch(() => ({}));
    throw Object.assign(new Error(found.message || `The server answered ${answer.status}.`), found);
  }
  return answer;
}

// The lines of an answer, as they come.
export async function* lines(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const line of parts) if (line) yield JSON.parse(line);
  }
}

// An element with texts and elements in it; texts stay texts.
export function element(name, members = {}, ...inside) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(members)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...inside);
  return made;
}

// Whatever a user decides upon is read as it is: what is not seen, or turns text around, is named.
const unseen = /[\p{C}\p{DI}\p{Zl}\p{Zp}]/gu;

export function spell(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value) ?? "";
  return text.replace(unseen, (one) => (one === "\n" ? one : `\\u{${one.codePointAt(0).toString(16)}}`));
}

// Arguments, each on its own: none reaches over into the next one.
export function spellArguments(pairs) {
  const found = pairs.map(([name, value]) =>
    element("bdi", { dir: "ltr" }, spell(`${name}=${JSON.stringify(value)}`)));
  return element("code", { class: "quiet" }, ...found.flatMap((one, place) => (place ? [", ", one] : [one])));
}

for (const form of document.querySelectorAll("form[data-post]")) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (form.dataset.confirm && !confirm(form.dataset.confirm)) return;
    try {
      const answer = await post(form.dataset.post, Object.fromEntries(new FormData(form)));
      const found = await answer.json();
      location.assign(form.dataset.then || found.location || location.href);
    } catch (error) {
      alert(error.message);
    }
  });
}

document.documentElement.dataset.ready = "";
