// The AI SDK: text with a tool, whole and streaming.
import { createAmazonBedrock } from "@ai-sdk/amazon-bedrock";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { model, report } from "./shared.mjs";

const bedrock = createAmazonBedrock({
  region: "us-east-1",
  accessKeyId: "local",
  secretAccessKey: "local",
  baseURL: process.env.AWS_ENDPOINT_URL,
});
const request = {
  model: bedrock(model),
  prompt: "How many days do I have? I am 7.",
  tools: {
    get_days: tool({
      description: "The vacation days that an employee has left.",
      inputSchema: z.object({ employee: z.string() }),
      execute: async ({ employee }) => ({ 7: "12" })[employee],
    }),
  },
  stopWhen: stepCountIs(3),
};
const whole = await generateText(request);
const calls = whole.steps.flatMap((step) => step.toolResults).map((it) => [it.input, it.output]);
let text = "";
for await (const part of streamText(request).textStream) text += part;
report({ calls, whole: whole.text, text });
