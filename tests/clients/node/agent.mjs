// An agent is made, and answers with the help of a Lambda function, or of its caller.
import {
  BedrockAgentClient,
  CreateAgentActionGroupCommand,
  CreateAgentCommand,
  GetAgentCommand,
  PrepareAgentCommand,
} from "@aws-sdk/client-bedrock-agent";
import { BedrockAgentRuntimeClient, InvokeAgentCommand } from "@aws-sdk/client-bedrock-agent-runtime";
import { group, instruction, model, options, readTurn, report } from "./shared.mjs";

const control = new BedrockAgentClient();
const made = await control.send(
  new CreateAgentCommand({
    agentName: "vacations",
    foundationModel: model,
    instruction,
    agentResourceRoleArn: "arn:aws:iam::123456789012:role/agent",
  }),
);
const agentId = made.agent.agentId;
await control.send(new CreateAgentActionGroupCommand({ agentId, agentVersion: "DRAFT", ...group }));
await control.send(new PrepareAgentCommand({ agentId }));
let status = "PREPARING";
while (status === "PREPARING") {
  status = (await control.send(new GetAgentCommand({ agentId }))).agent.agentStatus;
}

const runtime = new BedrockAgentRuntimeClient(options);
const common = { agentId, agentAliasId: "TSTALIASID", sessionId: "s-1" };

async function invoke(members) {
  return readTurn(await runtime.send(new InvokeAgentCommand({ ...common, ...members })));
}

const turns = [await invoke({ inputText: "How many days do I have? I am 7.", enableTrace: true })];
const handOver = turns[0].control;
if (handOver) {
  const { actionGroup, function: name } = handOver.invocationInputs[0].functionInvocationInput;
  const responseBody = { TEXT: { body: "12" } };
  const returnControlInvocationResults = [{ functionResult: { actionGroup, function: name, responseBody } }];
  turns.push(
    await invoke({ sessionState: { invocationId: handOver.invocationId, returnControlInvocationResults } }),
  );
}
report({ status, turns });
runtime.destroy();
