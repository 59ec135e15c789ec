/*
 * A long time under mixed load, then quiet: nothing that came with the load may stay behind it, and nothing that was acknowledged may be missing.
 */
import { join } from 'node:path';
import { type CallResult, drawCall } from './calls.ts';
import { type Checks, prove, sleep } from './checks.ts';
import { Clients } from './clients.ts';
import { type PacedUpstream, startPacedUpstream } from './paced-upstream.ts';
import { PASSERS_BY, passBy } from './passers-by.ts';
import { descriptors, listening, residentMb } from './process-state.ts';
import { ProofGateway, proofEnvironment, proofFolders } from './proof-gateway.ts';
import { Seeded } from './seeded.ts';
import { proofSettings } from './settings.ts';
import { type Audit, auditStore } from './store-audit.ts';

const SECONDS = { tenth: 60, full: 600, long: 3_600 };
/** Moderate: what is looked for is what stays, not what is slow. */
const PER_SECOND = 50;
/** The load before the first measurement fills every cache that has a bound; after it nothing may grow. */
const WARM_UP_SHARE = 0.25;
const LANES = 16;
const MAX_UNDER_WAY = 64;
const QUIET_LIMIT_MS = 30_000;
/** What a heap may grow by beyond the measurement after the warm-up: fragmentation, and compiled code that arrives late. */
const HEAP_GROWTH_MB = 6;
/** The same outside the JavaScript heap's own buffers. */
const EXTERNAL_GROWTH_MB = 4;
/** The index behind the journal has two write buffers of 16 MiB and a cache of 8 MiB, filled as records come; the allocator's slack comes on top. */
const RESIDENT_GROWTH_MB = 56;

interface Quiet {
  /** How long it took until no connection was left, milliseconds. */
  readonly quietAfter: number;
  readonly tcp: number;
  readonly filesElsewhere: readonly string[];
  readonly others: number;
  readonly heapMb: number;
  readonly externalMb: number;
  readonly residentMb: number;
  readonly tunnels: number;
}

interface Tally {
  readonly results: CallResult[];
  readonly tags: Set<string>;
  readonly oddities: string[];
  passersBy: number;
  skipped: number;
}

await prove(async (checks, cleanUp) => {
  const settings = proofSettings();
  const seconds = settings.seconds ?? SECONDS[settings.length];
  checks.note(`soak: ${seconds} s at ${PER_SECOND} requests/s, seed ${settings.seed}`);
  const folders = proofFolders(cleanUp);
  const upstream = await startPacedUpstream(cleanUp);
  const gateway = await ProofGateway.start(cleanUp, proofEnvironment(folders, upstream), folders.work);
  const tally: Tally = { results: [], tags: new Set(), oddities: [], passersBy: 0, skipped: 0 };
  const random = new Seeded(settings.seed);
  const listeners = listening(gateway.pid);

  await load(gateway, upstream, random, seconds * WARM_UP_SHARE, tally);
  const before = await quiet(gateway, listeners.length);
  checks.note(`       after ${tally.results.length} calls: ${describe(before)}`);
  await load(gateway, upstream, random, seconds * (1 - WARM_UP_SHARE), tally);
  const after = await quiet(gateway, listeners.length);
  checks.note(`       after ${tally.results.length} calls: ${describe(after)}`);

  checkQuiet(checks, before, after, listeners.length);
  checks.check(
    'it listens where it listened at first',
    listening(gateway.pid).join() === listeners.join() ? [] : [listening(gateway.pid).join()],
  );
  const complaints = gateway.complaints();
  checks.check('its log reports no error', complaints);
  const end = await gateway.stop();
  checks.check('SIGTERM ends it in order', end.code === 0 ? [] : [`exit code ${end.code ?? end.signal}: ${end.stderr}`]);
  checkRecords(checks, tally, await auditStore(join(folders.data, 'store')));
});

/** Starts so many requests per second, whatever becomes of them, and waits for the last. */
async function load(gateway: ProofGateway, upstream: PacedUpstream, random: Seeded, seconds: number, tally: Tally): Promise<void> {
  const clients = new Clients(gateway.port, gateway.caPem);
  const lanes = Array.from({ length: LANES }, (_, lane) => lane);
  const underWay = new Set<Promise<void>>();
  const one = async (): Promise<void> => {
    if (random.chance(0.3)) {
      tally.passersBy += 1;
      const oddity = await passBy(random.pick(PASSERS_BY), gateway, upstream.caPem);
      if (oddity !== undefined) tally.oddities.push(oddity);
      return;
    }
    const drawn = drawCall(random, `s${tally.tags.size + 1}`);
    // Now and then a prompt as agents send them.
    const plan = random.chance(0.03) ? { ...drawn, prompt: random.between(100_000, 2_000_000) } : drawn;
    tally.tags.add(plan.tag);
    const lane = random.chance(0.2) ? undefined : lanes.pop();
    tally.results.push(await clients.perform(plan, lane));
    upstream.moments.delete(plan.tag);
    if (lane !== undefined) lanes.push(lane);
  };
  const started = performance.now();
  for (let count = 0; count < seconds * PER_SECOND; count += 1) {
    const wait = started + (count * 1_000) / PER_SECOND - performance.now();
    if (wait > 0) await sleep(wait);
    if (underWay.size >= MAX_UNDER_WAY) {
      tally.skipped += 1;
      continue;
    }
    const call = one();
    underWay.add(call);
    void call.finally(() => underWay.delete(call));
  }
  await Promise.all(underWay);
  clients.close();
}

/** What is left when every client and every idle upstream connection is gone and the heap was collected. */
async function quiet(gateway: ProofGateway, listeners: number): Promise<Quiet> {
  const { pid } = gateway;
  const from = performance.now();
  let { tcp } = descriptors(pid);
  while (tcp > listeners && performance.now() - from < QUIET_LIMIT_MS) {
    await sleep(250);
    ({ tcp } = descriptors(pid));
  }
  const quietAfter = performance.now() - from;
  await gateway.metrics();
  let metrics: Readonly<Record<string, number>> = {};
  // Twice, since finalizers of the first collection free what only the second one finds.
  for (let times = 0; times < 2; times += 1) {
    gateway.child.kill('SIGUSR2');
    await sleep(500);
    metrics = await gateway.metrics();
  }
  const { files, others } = descriptors(pid);
  const mb = (name: string) => (metrics[name] ?? Number.NaN) / 1_048_576;
  return {
    quietAfter,
    tcp,
    // The store's own grow with its files; the index and the journal bound them.
    filesElsewhere: files.filter((file) => !file.includes('/data/store/')).sort(),
    others,
    heapMb: mb('nodejs_heap_size_used_bytes'),
    externalMb: mb('nodejs_external_memory_bytes'),
    residentMb: residentMb(pid),
    tunnels: metrics['gw_tunnels_open'] ?? Number.NaN,
  };
}

function describe(state: Quiet): string {
  const memory = `heap ${state.heapMb.toFixed(1)} MB, external ${state.externalMb.toFixed(1)} MB, resident ${state.residentMb.toFixed(0)} MB`;
  return `${memory}, ${state.tcp} TCP sockets (after ${(state.quietAfter / 1_000).toFixed(1)} s), ${state.filesElsewhere.length} files beside the store, ${state.others} other descriptors`;
}

function checkQuiet(checks: Checks, before: Quiet, after: Quiet, listeners: number): void {
  const grown = (name: string, from: number, to: number, limit: number) =>
    to - from <= limit ? [] : [`${name} grew by ${(to - from).toFixed(1)} MB, ${limit} MB are allowed`];
  const same = (name: string, from: unknown, to: unknown) =>
    String(from) === String(to) ? [] : [`${name}: ${String(from)} at first, ${String(to)} now`];
  checks.check('no socket but the listening ones is left open', [
    ...same('after the warm-up', listeners, before.tcp),
    ...same('after the load', listeners, after.tcp),
    ...same('gw_tunnels_open', 0, after.tunnels),
  ]);
  checks.check('file descriptors are as many as after the warm-up', [
    ...same('files beside the store', before.filesElsewhere, after.filesElsewhere),
    ...same('other descriptors', before.others, after.others),
  ]);
  checks.check(`the heap is as large as after the warm-up: ${(after.heapMb - before.heapMb).toFixed(1)} MB more`, [
    ...grown('the heap', before.heapMb, after.heapMb, HEAP_GROWTH_MB),
    ...grown('external memory', before.externalMb, after.externalMb, EXTERNAL_GROWTH_MB),
  ]);
  checks.check(
    `resident memory stays within the store's buffers: ${(after.residentMb - before.residentMb).toFixed(0)} MB more`,
    grown('resident memory', before.residentMb, after.residentMb, RESIDENT_GROWTH_MB),
  );
}

function checkRecords(checks: Checks, tally: Tally, audit: Audit): void {
  const acknowledged = tally.results.filter((result) => result.acknowledged);
  const missing: string[] = [];
  const recordOf = new Map([...audit.records].map(([id, record]) => [record.tag, { id, ...record }]));
  for (const result of acknowledged) {
    const { plan, recordId, recordHash } = result;
    const record = recordOf.get(plan.tag);
    if (record?.id !== recordId) missing.push(`${plan.tag}: record ${recordId}, stored is ${record?.id ?? 'none'}`);
    else if (recordHash !== undefined && recordHash !== record?.hash) missing.push(`${plan.tag}: another hash than announced`);
    else if (result.verbatim && record?.responseHash !== result.bodyHash()) missing.push(`${plan.tag}: other bytes than recorded`);
    recordOf.delete(plan.tag);
  }
  // What is left was never acknowledged: only a client that left by itself explains it.
  const left = new Set(tally.results.filter((result) => result.aborted).map((result) => result.plan.tag));
  const surplus = [...recordOf.values()]
    .filter(({ tag }) => !left.has(tag))
    .map(({ id, tag }) => `record ${id} of ${tag === '' ? 'nobody' : tag}`);
  const broken = tally.results
    .filter((result) => !result.acknowledged && !result.aborted)
    .map(({ plan, failure }) => `${plan.tag} (${plan.door}): ${failure}`);
  const faults = acknowledged.flatMap((result) => result.fault() ?? []);
  const aborts = tally.results.filter((result) => result.aborted).length;
  checks.check(`every call that its client did not leave was answered: ${acknowledged.length} answers, ${aborts} clients left`, [
    ...broken,
    ...faults,
  ]);
  checks.check(
    `records and acknowledged responses are the same: ${audit.records.size} records, ${recordOf.size} of them of clients that left`,
    [...missing, ...surplus],
  );
  checks.check(`whoever else passed by was treated as told: ${tally.passersBy}`, tally.oddities);
  checks.check("every stored record's hash recomputes, none is there twice", [...audit.badHashes, ...audit.doubles]);
  checks.check(`the roll-ups equal a recount over all records: ${audit.counters} counters`, audit.wrongCounters);
  const planned = tally.results.length + tally.passersBy + tally.skipped;
  const kept = tally.skipped <= planned / 4;
  checks.check(
    `the load was kept up: ${tally.skipped} of ${planned} requests left out`,
    kept ? [] : ['too many requests were under way at once'],
  );
}
