// Strands: an agent that runs there, on a model from here.
import { Agent, BedrockModel, tool } from "@strands-agents/sdk";
import { z } from "zod";
import { model, report } from "./shared.mjs";

const calls = [];
const getDays = tool({
  name: "get_days",
  description: "The vacation days that an employee has left.",
  inputSchema: z.object({ employee: z.string() }),
  callback: ({ employee }) => {
    calls.push(employee);
    return { 7: "12" }[employee];
  },
});
const agent = new Agent({
  model: new BedrockModel({ modelId: model, region: "us-east-1" }),
  tools: [getDays],
  printer: false,
});
const result = await agent.invoke("How many days do I have? I am 7.");
report({ calls, stopReason: result.stopReason, text: result.toString() });
