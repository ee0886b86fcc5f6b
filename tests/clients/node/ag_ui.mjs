// A run of an agent by AG-UI's own client, which checks the order of events; its interrupts, answered.
import { HttpAgent } from "@ag-ui/client";

const agent = new HttpAgent({ url: process.env.URL, threadId: "thread-1" });
const seen = [];
const outcomes = [];
agent.subscribe({
  onEvent({ event }) {
    seen.push(event.type);
    if (event.type === "RUN_FINISHED") outcomes.push(event.outcome);
  },
});
agent.addMessage({ id: "m-1", role: "user", content: process.env.QUESTION });
await agent.runAgent({ runId: "run-1" });
const first = outcomes.at(-1);
if (first?.type === "interrupt") {
  const resume = first.interrupts.map((one) => ({
    interruptId: one.id,
    status: "resolved",
    payload: process.env.RESULT,
  }));
  await agent.runAgent({ runId: "run-2", resume });
}
const texts = agent.messages.filter((it) => it.role === "assistant" && it.content);
console.log(
  JSON.stringify({
    outcomes: outcomes.map((it) => it.type),
    text: texts.at(-1)?.content ?? "",
    calls: agent.messages.flatMap((it) => it.toolCalls ?? []).map((it) => it.function.name),
    failed: seen.includes("RUN_ERROR"),
  }),
);
