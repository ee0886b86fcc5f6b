// A knowledge base is made, searched, and answers.
import {
  BedrockAgentClient,
  CreateDataSourceCommand,
  CreateKnowledgeBaseCommand,
  GetIngestionJobCommand,
  StartIngestionJobCommand,
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
const s3Configuration = { bucketArn: "arn:aws:s3:::documents" };
const source = await control.send(
  new CreateDataSourceCommand({
    knowledgeBaseId,
    name: "texts",
    dataSourceConfiguration: { type: "S3", s3Configuration },
  }),
);
const { dataSourceId } = source.dataSource;
let job = await control.send(new StartIngestionJobCommand({ knowledgeBaseId, dataSourceId }));
const { ingestionJobId } = job.ingestionJob;
while (!["COMPLETE", "FAILED"].includes(job.ingestionJob.status)) {
  job = await control.send(new GetIngestionJobCommand({ knowledgeBaseId, dataSourceId, ingestionJobId }));
}

const runtime = new BedrockAgentRuntimeClient(options);
const query = { text: "How many days of vacation?" };
const search = new RetrieveCommand({ knowledgeBaseId, retrievalQuery: query, nextToken: "string" });
const found = (await runtime.send(search)).retrievalResults;
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
report({
  status: job.ingestionJob.status,
  knowledgeBaseId,
  found: found.map((it) => ({ text: it.content.text, useful: it.score > 0.3 && it.score <= 1 })),
  text: events.filter((it) => it.output).map((it) => it.output.text).join(""),
});
runtime.destroy();
