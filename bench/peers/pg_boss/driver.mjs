// pg-boss: see bench/peers/program.py for what is asked of a driver.

import { PgBoss } from "pg-boss";
import { best, buffer, main } from "./program.mjs";

const QUEUE = "bench";

// https://github.com/timgit/pg-boss/blob/12.35.0/docs/api/workers.md
const settings = best
  ? { batchSize: 500, localConcurrency: 2, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 }
  : {};

async function started(options) {
  const boss = new PgBoss({ connectionString: process.env.PEER_DATABASE_URL, ...options });
  boss.on("error", console.error);
  await boss.start();
  return boss;
}

await main({
  async setup() {
    const boss = await started({ supervise: false, schedule: false });
    await boss.createQueue(QUEUE);
    await boss.stop();
  },

  async producer() {
    const boss = await started({ supervise: false, schedule: false });
    return {
      add: (payloads) =>
        boss.insert(
          QUEUE,
          payloads.map((data) => (data.due === undefined ? { data } : { data, startAfter: new Date(data.due) })),
        ),
      close: () => boss.stop(),
    };
  },

  async worker() {
    const boss = await started({});
    const put = buffer();
    await boss.work(QUEUE, settings, async (jobs) => jobs.forEach((job) => put(job.data)));
    return () => boss.stop();
  },
});
