// Models without an agent: whole, as a stream with a tool, and in Anthropic's own form.
import {
  BedrockRuntimeClient,
  ConverseCommand,
  ConverseStreamCommand,
  InvokeModelWithResponseStreamCommand,
} from "@aws-sdk/client-bedrock-runtime";
import { collect, model, options, report } from "./shared.mjs";

const runtime = new BedrockRuntimeClient(options);
const decoder = new TextDecoder();
const messages = [{ role: "user", content: [{ text: "How many days do I have? I am 7." }] }];
const json = { type: "object", properties: { employee: { type: "string" } }, required: ["employee"] };
const toolConfig = { tools: [{ toolSpec: { name: "get_days", inputSchema: { json } } }] };

const whole = await runtime.send(new ConverseCommand({ modelId: model, messages }));
const streamed = await runtime.send(new ConverseStreamCommand({ modelId: model, messages, toolConfig }));
const events = await collect(streamed.stream);
const inputs = events.map((it) => it.contentBlockDelta?.delta.toolUse?.input ?? "").join("");
const call = events.find((it) => it.contentBlockStart)?.contentBlockStart.start.toolUse;
messages.push({ role: "assistant", content: [{ toolUse: { ...call, input: JSON.parse(inputs) } }] });
const toolResult = { toolUseId: call.toolUseId, content: [{ json: { days: 12 } }] };
messages.push({ role: "user", content: [{ toolResult }] });
const answered = await runtime.send(new ConverseStreamCommand({ modelId: model, messages, toolConfig }));
const parts = await collect(answered.stream);

const body = JSON.stringify({
  anthropic_version: "bedrock-2023-05-31",
  max_tokens: 100,
  messages: [{ role: "user", content: "Say it in a word." }],
});
const own = await runtime.send(new InvokeModelWithResponseStreamCommand({ modelId: model, body }));
const chunks = (await collect(own.body)).map((it) => JSON.parse(decoder.decode(it.chunk.bytes)));
report({
  whole: whole.output.message.content,
  call: [call.name, JSON.parse(inputs)],
  stopReason: events.find((it) => it.messageStop).messageStop.stopReason,
  answer: parts.map((it) => it.contentBlockDelta?.delta.text ?? "").join(""),
  own: chunks.map((it) => it.delta?.text ?? "").join(""),
  kinds: [...new Set(chunks.map((it) => it.type))],
});
runtime.destroy();
