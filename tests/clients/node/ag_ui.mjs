// A run of an agent by AG-UI's own client, which checks the order of events; its interrupts, answered.
// CLIENT names the package: the oldest knows no outcomes, and answers a call by a message.
const { HttpAgent } = await import(process.env.CLIENT);

const agent = new HttpAgent({ url: process.env.URL, threadId: "thread-1" });
const seen = [];
const outcomes = [];
const thoughts = [];
agent.subscribe({
  onEvent({ event }) {
    seen.push(event.type);
    if (event.type === "RUN_FINISHED") outcomes.push(event.outcome);
    if (/^(REASONING|THINKING_TEXT)_MESSAGE_CONTENT$/.test(event.type)) thoughts.push(event.delta);
  },
});
agent.addMessage({ id: "m-1", role: "user", content: process.env.QUESTION });
await agent.runAgent({ runId: "run-1" });
const first = outcomes.at(-1);
const answered = new Set(agent.messages.map((it) => it.toolCallId));
const open = agent.messages.flatMap((it) => it.toolCalls ?? []).filter((it) => !answered.has(it.id));
if (process.env.ANSWER_BY === "tool" && open.length) {
  for (const { id } of open)
    agent.addMessage({ id, role: "tool", toolCallId: id, content: process.env.RESULT });
  await agent.runAgent({ runId: "run-2" });
} else if (first?.type === "interrupt") {
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
    outcomes: outcomes.map((it) => it?.type ?? ""),
    text: texts.at(-1)?.content ?? "",
    calls: agent.messages.flatMap((it) => it.toolCalls ?? []).map((it) => it.function.name),
    thoughts,
    failed: seen.includes("RUN_ERROR"),
  }),
);
