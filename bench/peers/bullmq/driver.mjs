// BullMQ: see bench/peers/program.py for what is asked of a driver.

import { Queue, Worker } from "bullmq";
import { best, buffer, main } from "./program.mjs";

const QUEUE = "bench";

// https://docs.bullmq.io/guide/workers/concurrency
const settings = best ? { concurrency: 100 } : {};

function connection() {
  const { hostname, port } = new URL(process.env.PEER_REDIS_URL);
  // BullMQ's workers wait in Redis for jobs, and want no limit of retries.
  return { host: hostname, port: Number(port), maxRetriesPerRequest: null };
}

await main({
  // A queue comes to be with its first job.
  async setup() {},

  async producer() {
    const queue = new Queue(QUEUE, { connection: connection() });
    return {
      add: (payloads) =>
        queue.addBulk(
          payloads.map((data) => ({
            name: "noop",
            data,
            opts: data.due === undefined ? undefined : { delay: Math.max(0, data.due - Date.now()) },
          })),
        ),
      close: () => queue.close(),
    };
  },

  async worker() {
    const put = buffer();
    const worker = new Worker(QUEUE, async (job) => put(job.data), { connection: connection(), ...settings });
    worker.on("error", console.error);
    await worker.waitUntilReady();
    return () => worker.close();
  },
});
