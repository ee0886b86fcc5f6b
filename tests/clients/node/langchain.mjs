// LangChain.js: a chat model with a tool, whole and streaming, and a knowledge base.
import { AmazonKnowledgeBaseRetriever, ChatBedrockConverse } from "@langchain/aws";
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { z } from "zod";
import { model, report } from "./shared.mjs";

const getDays = tool(async ({ employee }) => ({ 7: "12" })[employee], {
  name: "get_days",
  description: "The vacation days that an employee has left.",
  schema: z.object({ employee: z.string() }),
});
// Address, region and credentials are those of the environment.
const chat = new ChatBedrockConverse({ model }).bindTools([getDays]);

const messages = [new HumanMessage("How many days do I have? I am 7.")];
const asked = await chat.invoke(messages);
const [call] = asked.tool_calls;
messages.push(asked, new ToolMessage({ content: await getDays.invoke(call.args), tool_call_id: call.id }));
let text = "";
for await (const chunk of await chat.stream(messages)) text += chunk.text;

const knowledgeBaseId = process.env.KNOWLEDGE_BASE;
const retriever = new AmazonKnowledgeBaseRetriever({
  topK: 3,
  knowledgeBaseId,
  region: "us-east-1",
});
const documents = await retriever.invoke("How many days of vacation?");
report({ call: [call.name, call.args], text, documents: documents.map((it) => it.pageContent) });
