// What somebody writes who made a client with openapi-generator for TypeScript: create, find, cancel, read a refusal.

import { Configuration, JobsApi, ProblemFromJSON, ResponseError, type Task } from "./client";

const name = process.env.CLIENT_NAME!;
const task: Task = { kind: "shell", command: "date" };
const configuration = new Configuration({ basePath: process.env.CLIENT_URL, accessToken: process.env.CLIENT_KEY });
const jobs = new JobsApi(configuration);

async function refusal(): Promise<ResponseError> {
  try {
    await jobs.createJob({ jobBody: { name, cron: "61 * * * *", task } });
  } catch (failure) {
    if (failure instanceof ResponseError) return failure;
    throw failure;
  }
  throw new Error("a minute 61 was accepted");
}

async function main(): Promise<void> {
  const created = await jobs.createJob({ jobBody: { name, cron: "0 3 * * *", task } });
  const listed = await jobs.listJobs({ name });
  const cancelled = await jobs.cancelJob({ jobId: created.jobId });
  const problem = ProblemFromJSON(await (await refusal()).response.json());
  console.log(
    JSON.stringify({
      job_id: created.jobId,
      listed: listed.map((job) => job.jobId),
      hour: listed[0]?.nextRunAt?.getUTCHours(),
      cancelled: cancelled.status,
      code: problem.code,
      pointer: problem.pointer,
    }),
  );
}

void main();
