// Runs no-op jobs with BullMQ: `node jobs.mjs PORT JOBS SIDE_BY_SIDE one|bulk`. Prints the seconds
// from the first addition to the last completion, and the CPU seconds of this process meanwhile.
import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";

const [port, jobs, sideBySide] = process.argv.slice(2, 5).map(Number);
const inBulk = process.argv[5] === "bulk";
const connect = () => new Redis({ port, maxRetriesPerRequest: null });

const [forQueue, forWorker] = [connect(), connect()];
const queue = new Queue("flood", { connection: forQueue });
const worker = new Worker("flood", async () => "done", {
  connection: forWorker,
  concurrency: sideBySide,
});
await Promise.all([queue.waitUntilReady(), worker.waitUntilReady()]);

let left = jobs;
const all = new Promise((resolve) => {
  worker.on("completed", () => {
    left -= 1;
    if (left === 0) resolve();
  });
});

async function addOneByOne() {
  let next = 0;
  const adder = async () => {
    while (next < jobs) {
      next += 1;
      await queue.add("noop", "input");
    }
  };
  await Promise.all(Array.from({ length: sideBySide }, adder));
}

const addInBulk = () =>
  queue.addBulk(Array.from({ length: jobs }, () => ({ name: "noop", data: "input" })));

const [began, cpu] = [process.hrtime.bigint(), process.cpuUsage()];
await (inBulk ? addInBulk() : addOneByOne());
await all;
const seconds = Number(process.hrtime.bigint() - began) / 1e9;
const used = process.cpuUsage(cpu);
console.log(JSON.stringify({ seconds, cpu: (used.user + used.system) / 1e6 }));

await worker.close();
await queue.close();
for (const connection of [forQueue, forWorker]) connection.disconnect();
