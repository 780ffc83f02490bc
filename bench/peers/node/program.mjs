// What the drivers of the Node.js peers share: the words of bench/peers/program.py, and the workers' buffers.

import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";

export const best = process.env.PEER_SETTINGS === "best";
export const BATCH = 500;

const say = (line) => process.stdout.write(`${line}\n`);
const now = () => performance.timeOrigin + performance.now();

// A buffer for each worker of this process: ids, and for jobs with a due time how late they began, in milliseconds.
const buffers = [];
let handled = 0;
let first = null;

export function buffer() {
  const ids = [];
  const late = [];
  buffers.push({ ids, late });
  return ({ id, due }) => {
    first ??= now();
    ids.push(id);
    if (due !== undefined) late.push(now() - due);
    handled += 1;
  };
}

function record() {
  const ids = buffers.flatMap((one) => one.ids);
  const late_ms = buffers.flatMap((one) => one.late);
  writeFileSync(process.env.PEER_RECORD, JSON.stringify({ first: first && first / 1000, ids, late_ms }));
}

async function input(each) {
  for await (const line of createInterface({ input: process.stdin })) await each(line);
}

function payloads(from, count, firstDue, step) {
  return Array.from({ length: count }, (_, at) =>
    firstDue === undefined ? { id: from + at } : { id: from + at, due: firstDue + at * step },
  );
}

// peer: setup(), producer() -> {add(payloads), close()}, worker() -> stop().
export async function main(peer) {
  const [verb, ...numbers] = process.argv.slice(2);
  const [from, count, firstDue, step] = numbers.map(Number);
  if (verb === "setup") {
    await peer.setup();
  } else if (verb === "enqueue") {
    const producer = await peer.producer();
    const all = payloads(from, count, firstDue, step);
    for (let at = 0; at < count; at += BATCH) await producer.add(all.slice(at, at + BATCH));
    await producer.close();
  } else if (verb === "produce") {
    const producer = await peer.producer();
    let total = 0;
    say("ready");
    await input(async (line) => {
      const wanted = Number(line);
      await producer.add(payloads(total, wanted));
      total += wanted;
      say(`enqueued ${total}`);
    });
    await producer.close();
  } else if (verb === "work") {
    const stop = await peer.worker();
    let said = 0;
    const telling = setInterval(() => {
      if (handled !== said) say(`handled ${(said = handled)}`);
    }, 10);
    say("ready");
    await input(() => {});
    clearInterval(telling);
    await stop();
    record();
  } else {
    throw new Error(`no such verb: ${verb}`);
  }
  // Pools and timers of a peer may outlive their use.
  process.exit(0);
}
