/*
 * Both sides of the gateway break, stall and fall silent at random moments, on every door, for as long as the proof
 * runs: nothing of it may stay behind, nothing that is not whole may look whole to anybody, and whoever is not
 * concerned must not notice.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { ALLOW_ALL } from '../support/governed.ts';
import { type CallPlan, type CallResult, DOORS, type Door, drawCall, NON_AI_MODES, type NonAiMode, OTHER_DOORS } from './calls.ts';
import { type Checks, type CleanUp, prove, sleep } from './checks.ts';
import { Clients, type Gateway } from './clients.ts';
import { FAULTS, FaultyRelay, type Strike } from './faulty-relay.ts';
import type { Phase } from './health-prober.ts';
import { AI_HOST, BYSTANDER_HOST, KNOWN_HOST, type PacedUpstream, type SeenCall, startPacedUpstream } from './paced-upstream.ts';
import { Prober } from './prober.ts';
import { listening, waitedForCoreMs } from './process-state.ts';
import { ProofGateway, proofEnvironment, proofFolders } from './proof-gateway.ts';
import { checkQuiet, describe, quiet } from './quiet.ts';
import { Seeded } from './seeded.ts';
import { proofSettings } from './settings.ts';
import { type Talk, talk } from './sockets.ts';
import { type Audit, auditStore, SOCKET_TAG, TUNNEL_TAG } from './store-audit.ts';

const SECONDS = { tenth: 20, full: 180, long: 1_800 };
const LANES = 20;
const SOCKET_LANES = 4;
/** A lane rests for up to so long between two calls, milliseconds. */
const REST_MS = 200;
/** The first part fills every cache that has a bound; after it nothing may grow. */
const WARM_UP_SHARE = 0.25;
const EVERY_DOOR: readonly Door[] = [...DOORS, ...DOORS, ...OTHER_DOORS, ...OTHER_DOORS];
/** What a call may come to when one of its sides broke. 400: the client ended in the middle of its own request. */
const REFUSALS = new Set([400, 408, 502, 503, 504]);
/** "Aborts stop the upstream call within a second." */
const STOP_MS = 1_000;
/** No call waits for longer than all that can befall its two connections one after the other. */
const CALL_LIMIT_MS = 15_000;
/** Share of the time without a core that is believed, so that there is a limit on any machine. */
const MOST_WAITED = 0.9;
/**
 * How much longer than without any chaos one in a hundred may wait for `/healthz`; several times that where others want
 * the cores of the machine as well.
 */
const WAIT_MS = 150;
const BUSY_SHARE = 0.1;
const BUSY_FACTOR = 4;

interface Chaos {
  readonly gateway: ProofGateway;
  readonly upstream: PacedUpstream;
  readonly clientSide: FaultyRelay;
  readonly upstreamSides: readonly FaultyRelay[];
  readonly nonAi: NonAiMode;
  readonly random: Seeded;
  readonly cleanUp: CleanUp;
  /** Calls through the relays, and those of bystanders, who go around them. */
  readonly results: CallResult[];
  readonly bystanders: CallResult[];
  readonly talks: Talk[];
  /** Callers of tunnels that were opened and have a record of their own. */
  readonly tunnels: string[];
}

await prove(async (checks, cleanUp) => {
  const settings = proofSettings();
  const seconds = settings.seconds ?? SECONDS[settings.length];
  const seeded = (part: string) => new Seeded(`${settings.seed}/${part}`);
  const nonAi = settings.nonAi ?? seeded('mode').pick(NON_AI_MODES);
  checks.note(`chaos: ${seconds} s, ${LANES} clients, GW_PROXY_NON_AI=${nonAi}, seed ${settings.seed}`);
  const folders = proofFolders(cleanUp);
  const upstream = await startPacedUpstream(cleanUp);
  const tls = await FaultyRelay.start(cleanUp, upstream.ports.tls, seeded('tls'), 'dialling');
  const plain = await FaultyRelay.start(cleanUp, upstream.ports.plain, seeded('plain'), 'dialling');
  const env = (caFile: string) => upstream.env(caFile, { tls: tls.port, plain: plain.port });
  const environment = {
    ...proofEnvironment(folders, { caPem: upstream.caPem, env }),
    GW_PROXY_NON_AI: nonAi,
    // The shipped bundle knows providers only.
    GW_POLICIES_DIR: policiesThatAllow(folders.work),
  };
  const gateway = await ProofGateway.start(cleanUp, environment, folders.work);
  let stopping = false;
  void gateway.child.ended.then(({ code, signal, stderr }) => {
    if (!stopping) checks.check('the gateway lives', [`it ended with ${code ?? signal}`, stderr]);
  });
  const clientSide = await FaultyRelay.start(cleanUp, gateway.port, seeded('clients'), 'accepting');
  const chaos: Chaos = {
    gateway,
    upstream,
    clientSide,
    upstreamSides: [tls, plain],
    nonAi,
    random: seeded('calls'),
    cleanUp,
    results: [],
    bystanders: [],
    talks: [],
    tunnels: [],
  };
  const lag = monitorEventLoopDelay({ resolution: 5 });
  lag.enable();
  const listeners = listening(gateway.pid);
  const calm = await bystandersAlone(chaos);
  const warmUp = await wreak(chaos, seconds * WARM_UP_SHARE);
  const before = await quiet(gateway, listeners.length);
  checks.note(`       after ${chaos.results.length} calls: ${describe(before)}`);
  const rough = await wreak(chaos, seconds * (1 - WARM_UP_SHARE));
  const after = await quiet(gateway, listeners.length);
  checks.note(`       after ${chaos.results.length} calls: ${describe(after)}`);
  checks.note(`       struck: ${strikes(chaos)}`);
  checks.note(`       calls ended: ${endings(chaos.results)}`);

  checkQuiet(checks, before, after, listeners.length);
  checks.check('its log reports no error', gateway.complaints());
  stopping = true;
  const end = await gateway.stop();
  checks.check('SIGTERM ends it in order', end.code === 0 ? [] : [`exit code ${end.code ?? end.signal}: ${end.stderr}`]);
  checkAnswers(checks, chaos);
  // On a busy machine everybody is late: we who measure, and the gateway; and what takes a while takes the longer the
  // less of the time there is a core.
  const noCore = Math.min(MOST_WAITED, Math.max(warmUp.waitedForCore, rough.waitedForCore));
  const lateMs = lag.max / 1e6 + Math.max(warmUp.lagMs, rough.lagMs) + STOP_MS * (1 / (1 - noCore) - 1);
  checks.note(`       held up by the machine for at most ${lateMs.toFixed(0)} ms, which is added to what is measured in time`);
  checkAborts(checks, chaos, lateMs);
  checkBystanders(checks, chaos, calm, rough);
  const audit = await auditStore(join(folders.data, 'store'));
  checkRecords(checks, chaos, audit);
  checkTalks(checks, chaos, audit, lateMs);
});

interface RoughPhase extends Phase {
  /** Share of the time for which the gateway was ready to run and had no core. */
  readonly waitedForCore: number;
  /** Longest time for which its event loop was held, or had no core, milliseconds. */
  readonly lagMs: number;
}

/** A policies folder whose bundle lets everything through. */
function policiesThatAllow(parent: string): string {
  const folder = join(parent, 'policies');
  mkdirSync(folder);
  writeFileSync(join(folder, 'bundle.yaml'), ALLOW_ALL);
  return folder;
}

/** What bystanders see while nothing breaks. */
async function bystandersAlone(chaos: Chaos): Promise<Phase> {
  const prober = new Prober(chaos.gateway.port, chaos.cleanUp);
  const until = performance.now() + 3_000;
  await standBy(chaos, () => performance.now() > until);
  const phase = await prober.phase();
  prober.stop();
  return phase;
}

/** So many seconds of chaos, until the last call has its end; returns what a prober saw meanwhile. */
async function wreak(chaos: Chaos, seconds: number): Promise<RoughPhase> {
  const { gateway, upstream, clientSide, upstreamSides, nonAi, random, results, talks, cleanUp } = chaos;
  const relays = [clientSide, ...upstreamSides];
  for (const relay of relays) relay.armed = true;
  const prober = new Prober(gateway.port, cleanUp);
  const address: Gateway = {
    port: clientSide.port,
    ownPort: gateway.port,
    caPem: gateway.caPem,
    // Of whoever ends the TLS of a host that is no provider.
    upstreamCaPem: `${upstream.caPem}\n${gateway.caPem}`,
    recordsTunnel: (host) => nonAi === 'govern-ai' && host === KNOWN_HOST,
  };
  const clients = new Clients(address);
  const started = performance.now();
  const waited = waitedForCoreMs(gateway.pid);
  const over = (): boolean => performance.now() - started > seconds * 1_000;
  const lane = async (at: number): Promise<void> => {
    while (!over()) {
      const plan = drawCall(random, `x${results.length + clients.open.size}-${at}`, random.pick(EVERY_DOOR), nonAi);
      results.push(await clients.perform(plan, random.chance(0.2) ? undefined : at));
      await sleep(random.between(0, REST_MS));
    }
  };
  const socketLane = async (at: number): Promise<void> => {
    for (let count = 0; !over(); count += 1) {
      talks.push(await talk(address, AI_HOST, `${SOCKET_TAG}${at}-${seconds}-${count}`, random));
      await sleep(random.between(0, REST_MS));
    }
  };
  const lanes = Array.from({ length: LANES }, (_, at) => lane(at));
  const socketLanes = Array.from({ length: SOCKET_LANES }, (_, at) => socketLane(at));
  // A call that hangs is broken off, and stands out by its duration.
  const limit = setTimeout(
    () => {
      for (const result of clients.open) result.stand = standOf(chaos, clients, result);
      clients.close();
    },
    seconds * 1_000 + 2 * CALL_LIMIT_MS,
  );
  await Promise.all([...lanes, ...socketLanes, standBy(chaos, over)]);
  clearTimeout(limit);
  for (const relay of relays) relay.armed = false;
  clients.close();
  chaos.tunnels.push(...clients.tunnels);
  const phase = await prober.phase();
  prober.stop();
  const waitedForCore = (waitedForCoreMs(gateway.pid) - waited) / (performance.now() - started);
  const { nodejs_eventloop_lag_max_seconds: lagSeconds = 0 } = await gateway.metrics();
  return { ...phase, waitedForCore, lagMs: lagSeconds * 1_000 };
}

/** One client for each governed door whose connections nobody breaks, neither here nor behind the gateway. */
async function standBy({ gateway, upstream, random, bystanders }: Chaos, over: () => boolean): Promise<void> {
  const clients = new Clients({ ...gateway.address, upstreamCaPem: upstream.caPem });
  const lane = async (door: Door, at: number): Promise<void> => {
    while (!over()) {
      const drawn = drawCall(random, `b${bystanders.length + clients.open.size}-${door}`, door);
      const plan: CallPlan = { ...drawn, host: BYSTANDER_HOST, denied: false, abortAfter: undefined };
      bystanders.push(await clients.perform(plan, at));
      await sleep(200);
    }
  };
  await Promise.all(DOORS.map(lane));
  clients.close();
}

/** A call that hangs, from one end of its way to the other. */
function standOf({ clientSide, upstreamSides, upstream }: Chaos, clients: Clients, result: CallResult): string[] {
  const now = performance.now();
  const call = upstream.calls.get(result.plan.tag);
  return [
    clients.standOf(result) ?? 'client: not over h2',
    clientSide.standOf(result.localPort, now) ?? 'relay: unknown',
    ...upstreamSides.flatMap((relay) => (call && relay.standOf(call.remotePort, call.arrivedAt)) ?? []),
  ];
}

function strikes({ clientSide, upstreamSides }: Chaos): string {
  const count = (relays: readonly FaultyRelay[]): string =>
    FAULTS.map((kind) => `${relays.reduce((sum, { struck }) => sum + (struck.get(kind) ?? 0), 0)} × ${kind}`).join(', ');
  return `clients ${count([clientSide])}; upstreams ${count(upstreamSides)}`;
}

function endings(results: readonly CallResult[]): string {
  const counts = new Map<string, number>();
  for (const { complete, terminal, aborted, status } of results) {
    const ending = complete ? `answered ${status}` : terminal ? 'cut behind the terminal event' : aborted ? 'left' : 'cut';
    counts.set(ending, (counts.get(ending) ?? 0) + 1);
  }
  return [...counts].map(([ending, count]) => `${count} ${ending}`).join(', ');
}

function checkAnswers(checks: Checks, { results }: Chaos): void {
  const acknowledged = results.filter((result) => result.acknowledged);
  const expected = (result: CallResult): boolean => (result.plan.denied ? result.status === 403 : result.status === 200);
  const unclear = acknowledged
    .filter((result) => (expected(result) ? result.fault !== undefined : !REFUSALS.has(result.status)))
    .map((result) => result.fault ?? `${result.plan.tag} (${result.plan.door}): ${result.status} ${result.said}`);
  const whole = acknowledged.filter(expected).length;
  checks.check(`what a client saw complete is whole, to the last byte, or a refusal that says so: ${whole} answers`, [
    ...(whole < LANES ? ['too few calls were answered'] : []),
    ...unclear,
  ]);
}

/** What befell a call, in milliseconds from its beginning, for whoever has to find out what went wrong. */
function story({ clientSide, upstreamSides }: Chaos, result: CallResult, call: SeenCall): string {
  const since = (at: number | undefined): string => (at === undefined ? 'never' : (at - result.startedAt).toFixed(0));
  const strikes = (side: string, found: readonly Strike[]): string[] => found.map(({ kind, at }) => `${side}: ${kind} at ${since(at)}`);
  return [
    `client ${result.aborted ? 'left' : result.status === 0 ? 'got nothing' : `got ${result.status}`}${result.sent ? '' : ', had not sent all'}, over at ${since(result.overAt)}`,
    `upstream ${call.moment}, over at ${since(call.overAt)}`,
    ...strikes('client side', clientSide.strikesOn(result.localPort, result.overAt)),
    ...upstreamSides.flatMap((relay) => strikes('upstream side', relay.strikesOn(call.remotePort, call.arrivedAt))),
  ].join('; ');
}

/** Wherever a call did not come to its end, its upstream was let go of at once. */
function checkAborts(checks: Checks, chaos: Chaos, lagMs: number): void {
  const { results, upstream, clientSide, upstreamSides } = chaos;
  let slowest = 0;
  let stopped = 0;
  const late: string[] = [];
  const stalledUntil = (result: CallResult, call: SeenCall): number =>
    Math.max(
      clientSide.stalledUntil(result.localPort, result.overAt),
      ...upstreamSides.map((relay) => relay.stalledUntil(call.remotePort, call.arrivedAt)),
    );
  for (const result of results) {
    const call = upstream.calls.get(result.plan.tag);
    if (call === undefined || result.complete) continue;
    stopped += 1;
    const took = (call.overAt ?? Number.POSITIVE_INFINITY) - Math.max(result.overAt, stalledUntil(result, call));
    slowest = Math.max(slowest, took);
    if (took > STOP_MS + lagMs)
      late.push(`${result.plan.tag} (${result.plan.door}, ${result.plan.content}): ${took.toFixed(0)} ms; ${story(chaos, result, call)}`);
  }
  checks.check(`a call that broke off stops its upstream within a second: ${stopped} calls, the slowest after ${slowest.toFixed(0)} ms`, [
    ...(stopped === 0 ? ['no call broke off'] : []),
    ...late,
  ]);
  const twice = [...upstream.calls]
    .filter(([, { arrivals }]) => arrivals > 1)
    .map(([tag, { arrivals }]) => `${tag} came ${arrivals} times`);
  checks.check(`no request was sent twice: ${upstream.calls.size} arrived`, twice);
  const durations = results.map((result) => result.overAt - result.startedAt);
  const hung = results
    .filter((result) => result.overAt - result.startedAt > CALL_LIMIT_MS + lagMs)
    .map((result) => {
      const { plan, status, sent } = result;
      const moment = upstream.calls.get(plan.tag)?.moment ?? 'unseen';
      return `${plan.tag} (${plan.door}, ${plan.content}): status ${status}, ${sent ? 'sent' : 'not sent'}, upstream ${moment}${result.stand.map((line) => `\n           ${line}`).join('')}`;
    });
  checks.check(`every call has an end: the longest took ${(Math.max(...durations) / 1_000).toFixed(1)} s`, hung);
}

function checkBystanders(checks: Checks, { bystanders }: Chaos, calm: Phase, rough: RoughPhase): void {
  const broken = bystanders.flatMap((result) =>
    result.complete ? (result.fault ?? []) : [`${result.plan.tag}: ${result.failure ?? 'no answer'}`],
  );
  checks.check(`bystanders got every answer: ${bystanders.length} calls`, broken);
  const limit = (calm.p99 + WAIT_MS) * (rough.waitedForCore > BUSY_SHARE ? BUSY_FACTOR : 1);
  checks.check(
    `meanwhile /healthz took ${rough.median.toFixed(1)} ms, p99 ${rough.p99.toFixed(1)} ms, at most ${rough.longest.toFixed(0)} ms (p99 before ${calm.p99.toFixed(1)} ms, limit ${limit.toFixed(0)} ms; the gateway had no core for ${(rough.waitedForCore * 100).toFixed(0)} % of the time)`,
    rough.p99 <= limit ? [] : ['others had to wait'],
  );
}

function checkRecords(checks: Checks, { results, bystanders, tunnels }: Chaos, audit: Audit): void {
  const all = [...results, ...bystanders].filter(({ plan }) => plan.governed);
  const tags = new Set(all.map(({ plan }) => plan.tag));
  const missing: string[] = [];
  let weighed = 0;
  for (const result of all) {
    const { plan, recordId, recordHash } = result;
    if (!result.acknowledged || recordId === undefined) continue;
    weighed += 1;
    const record = audit.records.get(recordId);
    if (record === undefined || (record.tag !== plan.tag && record.tag !== ''))
      missing.push(`${plan.tag} (${plan.door}): no record ${recordId}`);
    else if (recordHash !== undefined && recordHash !== record.hash) missing.push(`${plan.tag}: another hash than announced`);
    else if (result.verbatim && record.responseHash !== result.bodyHash) missing.push(`${plan.tag}: other bytes than recorded`);
  }
  checks.check(`every response that a client saw complete has its record: ${weighed} of ${audit.records.size} records`, missing);
  const strangers = [...audit.records]
    .filter(([, { tag }]) => tag !== '' && !tags.has(tag) && !tag.startsWith(SOCKET_TAG) && !tag.startsWith(TUNNEL_TAG))
    .map(([id, { tag }]) => `${id} of ${tag}`);
  if (tunnels.length > 0) {
    const recorded = new Set([...audit.records.values()].map(({ tag }) => tag));
    const unknown = tunnels.filter((tag) => !recorded.has(tag));
    checks.check(`every tunnel that policy opened has its record: ${tunnels.length} tunnels`, unknown);
  }
  checks.check('every record belongs to a call, no call has two', [...strangers, ...audit.doubles]);
  checks.check("every stored record's hash recomputes", audit.badHashes);
  checks.check(`the roll-ups equal a recount over all records: ${audit.counters} counters`, audit.wrongCounters);
}

/**
 * Each call on a WebSocket whose end the client saw has its record; a WebSocket that broke off is over upstream within
 * a second.
 */
function checkTalks(checks: Checks, { talks, upstream, clientSide, upstreamSides }: Chaos, audit: Audit, lagMs: number): void {
  const recorded = new Map<string, number>();
  for (const { tag } of audit.records.values()) recorded.set(tag, (recorded.get(tag) ?? 0) + 1);
  const problems: string[] = [];
  let completed = 0;
  for (const { tag, localPort, overAt, hung, ...talk } of talks) {
    completed += talk.completed;
    const records = recorded.get(tag) ?? 0;
    if (records < talk.completed) problems.push(`${tag}: ${talk.completed} calls, ${records} records`);
    if (hung) problems.push(`${tag}: no answer came`);
    const seen = upstream.sockets.get(tag);
    if (seen === undefined) continue;
    const stalled = Math.max(
      clientSide.stalledUntil(localPort, overAt),
      ...upstreamSides.map((relay) => relay.stalledUntil(seen.remotePort, seen.arrivedAt)),
    );
    const took = (seen.overAt ?? Number.POSITIVE_INFINITY) - Math.max(overAt, stalled);
    if (took > STOP_MS + lagMs) problems.push(`${tag}: over upstream after ${took.toFixed(0)} ms`);
  }
  checks.check(`WebSockets: ${completed} calls on ${talks.length} of them, each with its record, each over upstream within a second`, [
    ...(completed === 0 ? ['no call came to its end'] : []),
    ...problems,
  ]);
}
