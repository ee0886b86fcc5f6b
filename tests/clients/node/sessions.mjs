// A session of one's own: its invocations and their steps.
import {
  BedrockAgentRuntimeClient,
  CreateInvocationCommand,
  CreateSessionCommand,
  DeleteSessionCommand,
  EndSessionCommand,
  GetInvocationStepCommand,
  GetSessionCommand,
  ListInvocationsCommand,
  ListInvocationStepsCommand,
  ListSessionsCommand,
  PutInvocationStepCommand,
} from "@aws-sdk/client-bedrock-agent-runtime";
import { options, report } from "./shared.mjs";

const runtime = new BedrockAgentRuntimeClient(options);
const made = await runtime.send(new CreateSessionCommand({ sessionMetadata: { topic: "vacations" } }));
const sessionIdentifier = made.sessionId;
const invocation = await runtime.send(new CreateInvocationCommand({ sessionIdentifier, description: "one" }));
const invocationIdentifier = invocation.invocationId;
const image = new Uint8Array([137, 80, 78, 71]);
const contentBlocks = [{ text: "Hello" }, { image: { format: "png", source: { bytes: image } } }];
const step = await runtime.send(
  new PutInvocationStepCommand({
    sessionIdentifier,
    invocationIdentifier,
    invocationStepTime: new Date(0),
    payload: { contentBlocks },
  }),
);
const invocationStepId = step.invocationStepId;
const read = await runtime.send(
  new GetInvocationStepCommand({ sessionIdentifier, invocationIdentifier, invocationStepId }),
);
const blocks = read.invocationStep.payload.contentBlocks;
const steps = await runtime.send(new ListInvocationStepsCommand({ sessionIdentifier, invocationIdentifier }));
const invocations = await runtime.send(new ListInvocationsCommand({ sessionIdentifier }));
const ended = await runtime.send(new EndSessionCommand({ sessionIdentifier }));
const seen = await runtime.send(new GetSessionCommand({ sessionIdentifier }));
const listed = await runtime.send(new ListSessionsCommand({}));
await runtime.send(new DeleteSessionCommand({ sessionIdentifier }));
let gone;
try {
  await runtime.send(new GetSessionCommand({ sessionIdentifier }));
} catch (error) {
  gone = error.name;
}
report({
  made: made.sessionStatus,
  text: blocks[0].text,
  image: [...blocks[1].image.source.bytes],
  time: read.invocationStep.invocationStepTime.getTime(),
  steps: steps.invocationStepSummaries.length,
  invocations: invocations.invocationSummaries.length,
  ended: [ended.sessionStatus, seen.sessionStatus, seen.sessionMetadata.topic],
  listed: listed.sessionSummaries.length,
  gone,
});
runtime.destroy();
