// A knowledge base is made, searched, and answers.
import {
  BedrockAgentClient,
  CreateDataSourceCommand,
  CreateKnowledgeBaseCommand,
  IngestKnowledgeBaseDocumentsCommand,
} from "@aws-sdk/client-bedrock-agent";
import {
  BedrockAgentRuntimeClient,
  RetrieveAndGenerateStreamCommand,
  RetrieveCommand,
} from "@aws-sdk/client-bedrock-agent-runtime";
import { collect, model, options, report } from "./shared.mjs";

const control = new BedrockAgentClient();
const embeddings = "arn:aws:bedrock:us-east-1::foundation-model/amazon.titan-embed-text-v2:0";
const base = await control.send(
  new CreateKnowledgeBaseCommand({
    name: "handbook",
    roleArn: "arn:aws:iam::123456789012:role/knowledge",
    knowledgeBaseConfiguration: {
      type: "VECTOR",
      vectorKnowledgeBaseConfiguration: { embeddingModelArn: embeddings },
    },
  }),
);
const { knowledgeBaseId } = base.knowledgeBase;
const source = await control.send(
  new CreateDataSourceCommand({
    knowledgeBaseId,
    name: "texts",
    dataSourceConfiguration: { type: "CUSTOM" },
  }),
);
const text = "Everybody has 30 days of vacation a year.";
const ingested = await control.send(
  new IngestKnowledgeBaseDocumentsCommand({
    knowledgeBaseId,
    dataSourceId: source.dataSource.dataSourceId,
    documents: [
      {
        content: {
          dataSourceType: "CUSTOM",
          custom: {
            customDocumentIdentifier: { id: "vacations" },
            sourceType: "IN_LINE",
            inlineContent: { type: "TEXT", textContent: { data: text } },
          },
        },
      },
    ],
  }),
);

const runtime = new BedrockAgentRuntimeClient(options);
const query = { text: "How many days of vacation?" };
let found = [];
while (!found.length) {
  found = (await runtime.send(new RetrieveCommand({ knowledgeBaseId, retrievalQuery: query }))).retrievalResults;
}
const answer = await runtime.send(
  new RetrieveAndGenerateStreamCommand({
    input: query,
    retrieveAndGenerateConfiguration: {
      type: "KNOWLEDGE_BASE",
      knowledgeBaseConfiguration: { knowledgeBaseId, modelArn: model },
    },
  }),
);
const events = await collect(answer.stream);
const citations = events.filter((it) => it.citation).map((it) => it.citation);
report({
  status: ingested.documentDetails[0].status,
  found: found.map((it) => ({ text: it.content.text, useful: it.score > 0.3 && it.score <= 1 })),
  text: events.filter((it) => it.output).map((it) => it.output.text).join(""),
  cited: citations.flatMap((it) => (it.retrievedReferences ?? it.citation.retrievedReferences)).map((it) => it.content.text),
});
runtime.destroy();
