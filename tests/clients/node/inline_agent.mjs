// Two turns of an agent that its caller describes.
import { BedrockAgentRuntimeClient, InvokeInlineAgentCommand } from "@aws-sdk/client-bedrock-agent-runtime";
import { group, instruction, model, options, readTurn, report } from "./shared.mjs";

const runtime = new BedrockAgentRuntimeClient(options);

async function invoke(inputText) {
  const agent = { foundationModel: model, instruction, actionGroups: [group] };
  return readTurn(
    await runtime.send(new InvokeInlineAgentCommand({ ...agent, sessionId: "s-1", inputText })),
  );
}

report([await invoke("How many days do I have? I am 7."), await invoke("Say it in a word.")]);
runtime.destroy();
