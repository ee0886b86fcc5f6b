// A run is started with what the form says.
import { post } from "./page.js";

const form = document.getElementById("start");
const complaint = document.getElementById("complaint");
const value = (id) => document.getElementById(id).value;
const lines = (id) => value(id).split("\n").map((line) => line.trim()).filter(Boolean);

form?.addEventListener("submit", async (event) => {
  event.preventDefault();
  complaint.classList.add("hidden");
  const body = {
    cases: value("cases"),
    only: value("only").split(/\s+/).filter(Boolean),
    models: lines("models"),
    prompts: [...form.querySelectorAll("[name=prompts]:checked")].map((box) => box.value),
    repeat: Number(value("repeat")),
    concurrency: Number(value("concurrency")),
    judge: value("judge").trim(),
    prices: lines("prices"),
  };
  try {
    const { run } = await (await post(`${form.dataset.at}/start`, body)).json();
    location.assign(`${form.dataset.at}/${run}`);
  } catch (error) {
    complaint.textContent = error.message;
    complaint.classList.remove("hidden");
  }
});
