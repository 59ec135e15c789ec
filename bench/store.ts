/*
 * Measures the embedded store under load, and its floor: the same bytes, written by one positional write per turn of
 * the event loop. Prints a table.
 *   node build/bench/store.js [records, default 1000000] [folder, default a temporary one]
 */
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../src/base/lib/clock.ts';
import { uuidv7 } from '../src/base/lib/ids.ts';
import { sha256Hex } from '../src/base/lib/sha256.ts';
import type { Effect, RecordCommit, Store } from '../src/storage/contract/store.ts';
import { openEmbeddedStore } from '../src/storage/embedded/open-embedded-store.ts';

const RECORD_BYTES = 2_000;
const filler = 'a'.repeat(RECORD_BYTES - 150);
/** As many as the record of a call has. */
const MEMBERS = {
  org_id: 'default',
  workload_id: 'workload-7',
  decision: 'allow',
  traffic_class: 'developer',
  provider: 'openai',
  model: 'gpt-4o',
  action_type: 'ai.infer',
  record_tier: 'action',
  connection_type: 'explicit_proxy',
  target_host: 'api.openai.com',
  node_id: 'node-1',
  project_id: 'project-3',
  metering: { cost_usd: '0.00123' },
};
const log = {
  info: () => undefined,
  warn: () => undefined,
  error: (fields: object, message: string) => process.stderr.write(`${message} ${JSON.stringify(fields)}\n`),
};

interface Figures {
  readonly name: string;
  readonly perSecond: number;
  readonly cpu: number;
  readonly p50: number;
  readonly p99: number;
}

/** Runs `count` calls, `concurrency` at a time; microseconds of wall time per call and of process CPU. */
async function measure(name: string, concurrency: number, count: number, call: (n: number) => Promise<unknown>): Promise<Figures> {
  const took = new Float64Array(count);
  let next = 0;
  const cpuBefore = process.cpuUsage();
  const started = performance.now();
  const worker = async (): Promise<void> => {
    while (next < count) {
      const n = next++;
      const from = performance.now();
      await call(n);
      took[n] = performance.now() - from;
    }
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
  const wall = performance.now() - started;
  const cpu = process.cpuUsage(cpuBefore);
  took.sort();
  const at = (part: number): number => (took[Math.min(count - 1, Math.floor(count * part))] ?? 0) * 1000;
  return { name, perSecond: (count / wall) * 1000, cpu: (cpu.user + cpu.system) / count, p50: at(0.5), p99: at(0.99) };
}

/** Records are made before the clock runs: the store is measured, not the maker. */
function makeRecords(count: number): RecordCommit[] {
  return Array.from({ length: count }, () => {
    const record_id = uuidv7(Date.now());
    const record_hash = sha256Hex(record_id);
    return {
      record_id,
      record_hash,
      text: `{"filler":"${filler}","record_hash":"${record_hash}","record_id":"${record_id}"}`,
      committed_at: Date.now(),
      members: MEMBERS,
    };
  });
}

function effectsOf(n: number): readonly Effect[] {
  return [
    { op: 'add', space: 'rollup', key: `2026-11-21T10/w${n % 50}`, amounts: { requests: 1n, tokens: 830n, pico_usd: 4_150_000_000n } },
  ];
}

async function floor(folder: string, concurrency: number, count: number): Promise<Figures> {
  const fd = openSync(join(folder, `floor-${concurrency}`), 'w');
  const bytes = Buffer.alloc(RECORD_BYTES * concurrency, 'a');
  let end = 0;
  let waiting: (() => void)[] = [];
  const flush = (): void => {
    const group = waiting;
    waiting = [];
    end += writeSync(fd, bytes, 0, RECORD_BYTES * group.length, end);
    for (const done of group) done();
  };
  const figures = await measure(`floor: bare write, c=${concurrency}`, concurrency, count, () => {
    return new Promise<void>((resolve) => {
      if (waiting.push(resolve) === 1) setImmediate(flush);
    });
  });
  fdatasyncSync(fd);
  closeSync(fd);
  return figures;
}

function megabytes(): string {
  return `${Math.round(process.memoryUsage().rss / 1e6)} MB`;
}

async function timed(call: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await call();
  return performance.now() - from;
}

async function median(times: number, call: (n: number) => Promise<unknown>): Promise<string> {
  const all: number[] = [];
  for (let n = 0; n < times; n += 1) all.push(await timed(() => call(n)));
  all.sort((a, b) => a - b);
  return `${(all[times >> 1] ?? 0).toFixed(2)} ms, worst ${(all.at(-1) ?? 0).toFixed(2)} ms`;
}

function print(lines: readonly string[]): void {
  process.stdout.write(`${lines.join('\n')}\n`);
}

async function main(): Promise<void> {
  const total = Number(process.argv[2] ?? 1_000_000);
  const folder = process.argv[3] ?? mkdtempSync(join(tmpdir(), 'gw-bench-store-'));
  const options = { dir: join(folder, 'store'), fsync: 1000, clock: systemClock, log } as const;
  try {
    let store = await openEmbeddedStore(options);
    const rows: Figures[] = [];
    const count = Math.max(1_000, Math.min(60_000, Math.floor(total / 10)));
    for (const concurrency of [1, 16, 64]) {
      rows.push(await floor(folder, concurrency, count));
      const plain = makeRecords(count);
      rows.push(await measure(`store: record, c=${concurrency}`, concurrency, count, (n) => store.commit(plain[n], [])));
      const counted = makeRecords(count);
      rows.push(
        await measure(`store: record + 3 counters, c=${concurrency}`, concurrency, count, (n) => store.commit(counted[n], effectsOf(n))),
      );
    }
    print(['| what | per second | CPU µs each | p50 µs | p99 µs |', '|---|---|---|---|---|']);
    print(
      rows.map(
        (row) => `| ${row.name} | ${Math.round(row.perSecond)} | ${row.cpu.toFixed(1)} | ${row.p50.toFixed(1)} | ${row.p99.toFixed(1)} |`,
      ),
    );
    await fill(store, total - 6 * count);
    print(['', '| with all records in it | |', '|---|---|', `| memory (RSS) after writing | ${megabytes()} |`]);
    await store.close();
    const opening = await timed(async () => {
      store = await openEmbeddedStore(options);
    });
    print([`| start | ${opening.toFixed(0)} ms |`]);
    await printReads(store);
    await store.close();
  } finally {
    if (process.argv[3] === undefined) rmSync(folder, { recursive: true, force: true });
  }
}

async function fill(store: Store, count: number): Promise<void> {
  const chunk = 10_000;
  const started = performance.now();
  for (let done = 0; done < count; done += chunk) {
    const records = makeRecords(Math.min(chunk, count - done));
    await measure('', 64, records.length, (n) => store.commit(records[n], effectsOf(n)));
  }
  print(['', `${Math.max(0, count)} more records in ${((performance.now() - started) / 1000).toFixed(1)} s, making them included`]);
}

async function printReads(store: Store): Promise<void> {
  const newest = await store.records({ limit: 50, newestFirst: true });
  const oldest = await store.records({ limit: 50 });
  const middle = newest.at(-1);
  print([
    `| page of 50, newest first | ${await median(20, () => store.records({ limit: 50, newestFirst: true }))} |`,
    `| page of 50, oldest first | ${await median(20, () => store.records({ limit: 50 }))} |`,
    `| page of 50 after a position | ${await median(20, () => store.records({ limit: 50, newestFirst: true, after: middle?.position ?? '' }))} |`,
    `| record by id | ${await median(20, (n) => store.recordById(/"record_id":"([^"]+)"/.exec(oldest[n]?.text ?? '')?.[1] ?? ''))} |`,
    `| memory (RSS) after reading | ${megabytes()} |`,
  ]);
}

await main();
