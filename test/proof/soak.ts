/*
 * A long time under mixed load, then quiet: nothing that came with the load may stay behind it, and nothing that was
 * acknowledged may be missing.
 */
import { join } from 'node:path';
import { type CallResult, DOORS, drawCall, OTHER_DOORS } from './calls.ts';
import { type Checks, prove, sleep } from './checks.ts';
import { Clients } from './clients.ts';
import { type PacedUpstream, startPacedUpstream } from './paced-upstream.ts';
import { PASSERS_BY, passBy } from './passers-by.ts';
import { listening, waitedForCoreMs } from './process-state.ts';
import { ProofGateway, proofEnvironment, proofFolders } from './proof-gateway.ts';
import { checkQuiet, describe, quiet } from './quiet.ts';
import { Seeded } from './seeded.ts';
import { proofSettings } from './settings.ts';
import { type Audit, auditStore } from './store-audit.ts';

const SECONDS = { tenth: 60, full: 600, long: 3_600 };
/** Moderate: what is looked for is what stays, not what is slow. */
const PER_SECOND = 50;
const EVERY_DOOR = [...DOORS, ...DOORS, ...OTHER_DOORS];
/** The load before the first measurement fills every cache that has a bound; after it nothing may grow. */
const WARM_UP_SHARE = 0.25;
const LANES = 16;
const MAX_UNDER_WAY = 64;
/**
 * On a machine where the gateway or its clients had no core for so much of the time, a load that was not kept up says
 * nothing about the gateway.
 */
const BUSY_SHARE = 0.1;

interface Pressure {
  readonly gateway: ProofGateway;
  readonly upstream: PacedUpstream;
  readonly random: Seeded;
  readonly perSecond: number;
  readonly tally: Tally;
}

interface Tally {
  readonly results: CallResult[];
  readonly tags: Set<string>;
  readonly oddities: string[];
  passersBy: number;
  skipped: number;
  /** Share of the time for which the gateway or this process was ready to run and had no core, whichever is larger. */
  waitedForCore: number;
}

await prove(async (checks, cleanUp) => {
  const settings = proofSettings();
  const seconds = settings.seconds ?? SECONDS[settings.length];
  const perSecond = settings.rate ?? PER_SECOND;
  checks.note(`soak: ${seconds} s at ${perSecond} requests/s, seed ${settings.seed}`);
  const folders = proofFolders(cleanUp);
  const upstream = await startPacedUpstream(cleanUp);
  const gateway = await ProofGateway.start(cleanUp, proofEnvironment(folders, upstream), folders.work);
  const tally: Tally = { results: [], tags: new Set(), oddities: [], passersBy: 0, skipped: 0, waitedForCore: 0 };
  const random = new Seeded(settings.seed);
  const listeners = listening(gateway.pid);

  const pressure = { gateway, upstream, random, perSecond, tally };
  await load(pressure, seconds * WARM_UP_SHARE);
  const before = await quiet(gateway, listeners.length);
  const waited = [gateway.pid, process.pid].map((pid) => [pid, waitedForCoreMs(pid), performance.now()] as const);
  checks.note(`       after ${tally.results.length} calls: ${describe(before)}`);
  await load(pressure, seconds * (1 - WARM_UP_SHARE));
  tally.waitedForCore = Math.max(...waited.map(([pid, ms, from]) => (waitedForCoreMs(pid) - ms) / (performance.now() - from)));
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
async function load({ gateway, upstream, random, perSecond, tally }: Pressure, seconds: number): Promise<void> {
  const clients = new Clients({ ...gateway.address, upstreamCaPem: upstream.caPem });
  const lanes = Array.from({ length: LANES }, (_, lane) => lane);
  const underWay = new Set<Promise<void>>();
  const one = async (): Promise<void> => {
    if (random.chance(0.3)) {
      tally.passersBy += 1;
      const oddity = await passBy(random.pick(PASSERS_BY), gateway, upstream.caPem);
      if (oddity !== undefined) tally.oddities.push(oddity);
      return;
    }
    const drawn = drawCall(random, `s${tally.tags.size + 1}`, random.pick(EVERY_DOOR));
    // Now and then a prompt as agents send them.
    const plan = random.chance(0.03) ? { ...drawn, prompt: random.between(100_000, 2_000_000) } : drawn;
    tally.tags.add(plan.tag);
    const lane = random.chance(0.2) ? undefined : lanes.pop();
    tally.results.push(await clients.perform(plan, lane));
    upstream.calls.delete(plan.tag);
    if (lane !== undefined) lanes.push(lane);
  };
  const started = performance.now();
  for (let count = 0; count < seconds * perSecond; count += 1) {
    const wait = started + (count * 1_000) / perSecond - performance.now();
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

function checkRecords(checks: Checks, tally: Tally, audit: Audit): void {
  const acknowledged = tally.results.filter((result) => result.acknowledged);
  const missing: string[] = [];
  const recordOf = new Map([...audit.records].map(([id, record]) => [record.tag, { id, ...record }]));
  for (const result of acknowledged) {
    const { plan, recordId, recordHash } = result;
    if (!plan.governed) continue;
    const record = recordOf.get(plan.tag);
    if (record?.id !== recordId) missing.push(`${plan.tag}: record ${recordId}, stored is ${record?.id ?? 'none'}`);
    else if (recordHash !== undefined && recordHash !== record?.hash) missing.push(`${plan.tag}: another hash than announced`);
    else if (result.verbatim && record?.responseHash !== result.bodyHash) missing.push(`${plan.tag}: other bytes than recorded`);
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
  const faults = acknowledged.flatMap((result) => result.fault ?? []);
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
  const kept = tally.skipped <= planned / 4 || tally.waitedForCore > BUSY_SHARE;
  checks.check(
    `the load was kept up: ${tally.skipped} of ${planned} requests left out (no core for ${(tally.waitedForCore * 100).toFixed(0)} % of the time)`,
    kept ? [] : ['too many requests were under way at once'],
  );
}
