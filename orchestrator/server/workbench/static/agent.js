// A new session has an id that says when it began.
import "./page.js";

document.getElementById("begin").addEventListener("click", (event) => {
  const now = new Date();
  const part = (value) => String(value).padStart(2, "0");
  const day = `${now.getFullYear()}-${part(now.getMonth() + 1)}-${part(now.getDate())}`;
  const time = [now.getHours(), now.getMinutes(), now.getSeconds()].map(part).join("");
  location.assign(`${event.target.dataset.to}${day}-${time}`);
});
