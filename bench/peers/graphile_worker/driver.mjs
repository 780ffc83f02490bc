// graphile-worker: see bench/peers/program.py for what is asked of a driver.

import { Logger, makeWorkerUtils, run } from "graphile-worker";
import { best, buffer, main } from "./program.mjs";

// It logs each job by default.
const logger = new Logger(() => () => {});
const connectionString = process.env.PEER_DATABASE_URL;

// https://worker.graphile.org/docs/performance#quick-stats
const settings = best
  ? {
      concurrentJobs: 24,
      maxPoolSize: 25,
      localQueue: { size: 500 },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
      // Jobs of the future are found by polling alone; two seconds is the default.
      pollInterval: 100,
    }
  : {};

await main({
  async setup() {
    const utils = await makeWorkerUtils({ connectionString, logger });
    await utils.migrate();
    await utils.release();
  },

  async producer() {
    const utils = await makeWorkerUtils({ connectionString, logger });
    return {
      add: (payloads) =>
        utils.addJobs(
          payloads.map((payload) => ({
            identifier: "noop",
            payload,
            runAt: payload.due === undefined ? undefined : new Date(payload.due),
          })),
        ),
      close: () => utils.release(),
    };
  },

  async worker() {
    const put = buffer();
    const runner = await run({
      preset: { worker: { connectionString, logger, ...settings } },
      taskList: { noop: put },
      parsedCronItems: [],
      noHandleSignals: true,
    });
    return () => runner.stop();
  },
});
