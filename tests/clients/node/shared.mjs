// What the scripts share. The server's address and the credentials are in the environment.
import { NodeHttpHandler } from "@smithy/node-http-handler";

// The SDK's clients of both runtimes speak HTTP/2, unless they are given another handler.
export const options = process.env.HTTP === "1" ? { requestHandler: new NodeHttpHandler() } : {};

export const group = JSON.parse(process.env.GROUP);
export const instruction = process.env.INSTRUCTION;
export const model = process.env.MODEL;

export function report(value) {
  console.log(JSON.stringify(value));
}

export async function collect(events) {
  const all = [];
  for await (const event of events) all.push(event);
  return all;
}

const decoder = new TextDecoder();

// What a turn of an agent said, asked for and did.
export async function readTurn(answer) {
  const events = await collect(answer.completion);
  const text = events.filter((it) => it.chunk).map((it) => decoder.decode(it.chunk.bytes)).join("");
  const control = events.find((it) => it.returnControl)?.returnControl;
  const traces = events.filter((it) => it.trace).map((it) => Object.keys(it.trace.trace)[0]);
  return { text, control, traces: [...new Set(traces)] };
}
