// The token comes in the fragment, which no browser sends: it is exchanged for a cookie.
const token = new URLSearchParams(location.hash.slice(1)).get("t");
const place = document.getElementById("place");

if (token) {
  history.replaceState(null, "", location.pathname + location.search);
  const answer = await fetch("/workbench/enter", {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Workbench": "1" },
    body: JSON.stringify({ token }),
  });
  if (answer.ok) location.reload();
  else place.textContent = (await answer.json()).message;
}
