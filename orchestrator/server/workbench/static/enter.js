// The token comes in the fragment, which no browser sends: it is exchanged for a cookie, and for the
// path to which alone browsers send that. Links of an earlier start lead to the path of this one.
const token = new URLSearchParams(location.hash.slice(1)).get("t");
const place = document.getElementById("place");
const known = localStorage.getItem("workbench");

function go(root) {
  const rest = location.pathname.replace(/^\/workbench(\/[\w-]{22}(?=\/|$))?/, "");
  location.replace(root + (rest.startsWith("/") ? rest : "/") + location.search);
}

if (token) {
  history.replaceState(null, "", location.pathname + location.search);
  const answer = await fetch("/workbench/enter", {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Workbench": "1" },
    body: JSON.stringify({ token }),
  });
  const found = await answer.json();
  if (answer.ok) {
    localStorage.setItem("workbench", found.root);
    go(found.root);
  } else place.textContent = found.message;
} else if (known && !`${location.pathname}/`.startsWith(`${known}/`)) go(known);
