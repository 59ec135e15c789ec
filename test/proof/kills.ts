/*
 * SIGKILL under load at random moments (decisions 6.8, 7.9): what a client saw complete has its record, every record id
 * that a client saw leads to a record after the next start, though no cap holds its call, what is stored is whole,
 * totals and records agree.
 */
import { cp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { atMost } from '../support/child.ts';
import { type CallPlan, type CallResult, DOORS, drawCall } from './calls.ts';
import { type Checks, type CleanUp, prove, sleep } from './checks.ts';
import { Clients } from './clients.ts';
import { type Moment, type PacedUpstream, startPacedUpstream } from './paced-upstream.ts';
import { type Folders, ProofGateway, proofEnvironment, proofFolders } from './proof-gateway.ts';
import { Seeded } from './seeded.ts';
import { type ProofSettings, proofSettings } from './settings.ts';
import { type Audit, auditStore, type SeenRecord } from './store-audit.ts';

const CLIENTS = 16;
const START_LIMIT_MS = 5_000;
/** On a machine where a start on an empty folder takes long already, one after a kill may take so many times that. */
const START_LIMIT_FACTOR = 3;
const ROUNDS = { tenth: 5, full: 50, long: 50 };

/** What is found wrong over all rounds; each check prints its own. */
interface Findings {
  readonly start: string[];
  readonly answers: string[];
  readonly unrecorded: string[];
  /** Ids of calls that were cut off, and that the next start made no record of. */
  readonly forgotten: string[];
  readonly otherRecord: string[];
  readonly badHashes: string[];
  readonly doubles: string[];
  readonly lost: string[];
  readonly strangers: string[];
  readonly counters: string[];
}

interface Campaign {
  readonly settings: ProofSettings;
  readonly folders: Folders;
  readonly env: Record<string, string>;
  readonly upstream: PacedUpstream;
  readonly cleanUp: CleanUp;
  readonly found: Findings;
  /** Every call ever made, by tag. */
  readonly tags: Set<string>;
  /** Every record that an earlier audit saw. */
  readonly known: Map<string, SeenRecord>;
  /** Calls that the kills found under way, by where they were. */
  readonly windows: Map<string, number>;
  readonly startTimes: number[];
  acknowledged: number;
  /** Calls that the kills cut off behind the head of their answers. */
  cutOff: number;
  byTerminalAlone: number;
  counted: number;
}

/** A call that was under way when the gateway was killed, and how far the upstream had got with it. */
interface Struck {
  readonly result: CallResult;
  readonly moment: Moment | undefined;
}

await prove(async (checks, cleanUp) => {
  const settings = proofSettings();
  const rounds = settings.rounds ?? ROUNDS[settings.length];
  checks.note(`kills: ${rounds} rounds, ${CLIENTS} clients, seed ${settings.seed}`);
  const folders = proofFolders(cleanUp);
  const upstream = await startPacedUpstream(cleanUp);
  const found = {
    start: [],
    answers: [],
    unrecorded: [],
    forgotten: [],
    otherRecord: [],
    badHashes: [],
    doubles: [],
    lost: [],
    strangers: [],
    counters: [],
  };
  const campaign: Campaign = {
    settings,
    folders,
    env: proofEnvironment(folders, upstream),
    upstream,
    cleanUp,
    found,
    tags: new Set(),
    known: new Map(),
    windows: new Map(),
    startTimes: [],
    acknowledged: 0,
    cutOff: 0,
    byTerminalAlone: 0,
    counted: 0,
  };
  let previous: readonly CallResult[] = [];
  for (let round = 1; round <= rounds; round += 1) {
    const gateway = await start(campaign, round, previous);
    const { results, struck } = await loadAndKill(campaign, gateway, round);
    previous = results;
    const copy = join(folders.root, 'copy');
    // The gateway's own recovery is to find the folder as the kill left it.
    await cp(join(folders.data, 'store'), copy, { recursive: true });
    weigh(campaign, `round ${round}`, results, struck, await auditStore(copy));
    await rm(copy, { recursive: true });
    if (round % 10 === 0 && round < rounds) checks.note(`       ${round} kills, ${campaign.known.size} records`);
  }
  const last = await start(campaign, rounds + 1, previous);
  const end = await last.stop();
  weigh(campaign, 'the end', [], [], await auditStore(join(folders.data, 'store')));
  report(checks, campaign, rounds, end.code === 0 ? [] : [`exit code ${end.code ?? end.signal}: ${end.stderr}`]);
});

function startLimit(startTimes: readonly number[]): number {
  return Math.max(START_LIMIT_MS, START_LIMIT_FACTOR * (startTimes[0] ?? 0));
}

/**
 * Starts on the folder as it is, and asks for the records of all ids that were seen before the kill and for a call
 * through each door.
 */
async function start(campaign: Campaign, round: number, before: readonly CallResult[]): Promise<ProofGateway> {
  const { cleanUp, env, folders, found, startTimes, tags } = campaign;
  const gateway = await ProofGateway.start(cleanUp, env, folders.work);
  startTimes.push(gateway.startMs);
  if (gateway.startMs > startLimit(startTimes)) found.start.push(`round ${round}: ${gateway.startMs.toFixed(0)} ms`);
  const inTurn = atMost(8);
  const looks = before
    .filter((result) => result.recordId !== undefined)
    .map((result) =>
      inTurn(async () => {
        const { status } = await gateway.get(`/v1/records/${result.recordId}`);
        if (!result.acknowledged) campaign.cutOff += 1;
        if (status === 200) return;
        const problem = `round ${round - 1}: ${result.plan.tag} (${result.plan.door}): GET answers ${status} for ${result.recordId}`;
        (result.acknowledged ? found.unrecorded : found.forgotten).push(problem);
      }),
    );
  await Promise.all(looks);
  const clients = new Clients({ ...gateway.address, upstreamCaPem: campaign.upstream.caPem });
  for (const door of DOORS) {
    const random = new Seeded(`${campaign.settings.seed}/${round}/${door}`);
    const plan: CallPlan = { ...drawCall(random, `r${round}-${door}`, door), abortAfter: undefined };
    tags.add(plan.tag);
    const result = await clients.perform(plan, undefined);
    const fault = result.failure ?? result.fault;
    if (fault !== undefined) found.answers.push(`round ${round}, after the start: ${fault}`);
  }
  clients.close();
  return gateway;
}

/**
 * Keeps all clients calling, kills at the moment that the seed picks, and waits until every client knows how its call
 * ended.
 */
async function loadAndKill(
  campaign: Campaign,
  gateway: ProofGateway,
  round: number,
): Promise<{ results: readonly CallResult[]; struck: readonly Struck[] }> {
  const { upstream, tags, settings } = campaign;
  const clients = new Clients({ ...gateway.address, upstreamCaPem: upstream.caPem });
  const results: CallResult[] = [];
  let killed = false;
  const work = async (lane: number): Promise<void> => {
    const random = new Seeded(`${settings.seed}/${round}/${lane}`);
    for (let call = 1; !killed; call += 1) {
      const plan = drawCall(random, `r${round}-c${lane}-${call}`);
      tags.add(plan.tag);
      results.push(await clients.perform(plan, lane));
    }
  };
  const workers = Array.from({ length: CLIENTS }, (_, lane) => work(lane));
  // Connections are made first: a kill among handshakes alone would prove little.
  for (let waited = 0; results.length < 2 * CLIENTS && waited < 3_000; waited += 20) await sleep(20);
  await pickedMoment(new Seeded(`${settings.seed}/${round}`), upstream);
  const dead = gateway.kill();
  killed = true;
  const struck = [...clients.open].map((result) => ({ result, moment: upstream.calls.get(result.plan.tag)?.moment }));
  await dead;
  // What the kernel still holds for a client is read before its end; nothing more can come then.
  await Promise.race([Promise.all(workers), sleep(2_000)]);
  clients.close();
  await Promise.all(workers);
  upstream.calls.clear();
  return { results, struck };
}

/**
 * Some time under load, and then, for most kills, a fraction of a millisecond after the upstream did something that
 * matters.
 */
async function pickedMoment(random: Seeded, upstream: PacedUpstream): Promise<void> {
  const after = random.between(200, 1_000);
  const awaited = random.weighted<Moment | undefined>([
    [3, undefined],
    [1, 'received'],
    [1, 'answering'],
    [4, 'terminal'],
    [5, 'ended'],
  ]);
  const delayMicros = random.between(0, 1_500);
  await sleep(after);
  if (awaited === undefined) return;
  await new Promise<void>((resolve) => {
    const giveUp = setTimeout(resolve, 1_000);
    upstream.onMoment = (moment) => {
      if (moment !== awaited) return;
      upstream.onMoment = () => undefined;
      clearTimeout(giveUp);
      // Behind the turn in which the bytes leave; timers are too coarse for what follows.
      setImmediate(() => {
        const until = performance.now() + delayMicros / 1_000;
        while (performance.now() < until);
        resolve();
      });
    };
  });
  upstream.onMoment = () => undefined;
}

/** Holds what the clients saw against what is stored. */
function weigh(campaign: Campaign, when: string, results: readonly CallResult[], struck: readonly Struck[], audit: Audit): void {
  const { found, known, tags } = campaign;
  const of = (problems: readonly string[]) => problems.map((problem) => `${when}: ${problem}`);
  for (const result of results) weighCall(campaign, when, result, audit);
  found.badHashes.push(...of(audit.badHashes));
  found.doubles.push(...of(audit.doubles));
  found.counters.push(...of(audit.wrongCounters));
  for (const [id, { hash }] of known) {
    const now = audit.records.get(id);
    if (now?.hash !== hash) found.lost.push(`${when}: record ${id} ${now === undefined ? 'is gone' : 'has changed'}`);
  }
  const recorded = new Set<string>();
  for (const [id, record] of audit.records) {
    recorded.add(record.tag);
    if (!tags.has(record.tag)) found.strangers.push(`${when}: record ${id} belongs to no call: ${record.tag}`);
    known.set(id, record);
  }
  campaign.counted = audit.counters;
  for (const { result, moment } of struck) {
    const window = windowOf(result, moment, recorded.has(result.plan.tag));
    campaign.windows.set(window, (campaign.windows.get(window) ?? 0) + 1);
  }
}

function weighCall(campaign: Campaign, when: string, result: CallResult, audit: Audit): void {
  if (!result.acknowledged) return;
  const { found } = campaign;
  const { plan, recordId, recordHash, complete } = result;
  campaign.acknowledged += 1;
  if (!complete) campaign.byTerminalAlone += 1;
  const fault = result.fault;
  if (fault !== undefined) found.answers.push(`${when}: ${fault}`);
  if (recordId === undefined) return;
  const record = audit.records.get(recordId);
  if (record === undefined) {
    found.unrecorded.push(`${when}: ${plan.tag} (${plan.door}, ${plan.pace.events} events): ${recordId} is not in the store`);
  } else if (record.tag !== plan.tag || (recordHash !== undefined && recordHash !== record.hash)) {
    found.otherRecord.push(`${when}: ${plan.tag}: record ${recordId} is that of ${record.tag}, hash ${record.hash}`);
  } else if (result.verbatim && record.responseHash !== result.bodyHash) {
    found.otherRecord.push(`${when}: ${plan.tag}: the client's bytes have another SHA-256 than record ${recordId}`);
  }
}

function windowOf(result: CallResult, moment: Moment | undefined, recorded: boolean): string {
  if (result.complete) return 'the client had all of it, or it was still in its socket';
  if (result.terminal) return 'terminal event seen, the framed end not';
  if (recorded) return 'between commit and last byte';
  switch (moment) {
    case undefined:
      return 'before the upstream had it';
    case 'received':
      return 'waiting for the answer';
    case 'answering':
      return 'inside the answer';
    case 'terminal':
      return 'between terminal event and end, not committed';
    case 'ended':
      return 'between end and commit';
  }
}

function report(checks: Checks, campaign: Campaign, rounds: number, ending: readonly string[]): void {
  const { found, known, windows, startTimes, acknowledged, cutOff, byTerminalAlone, counted } = campaign;
  const seconds = (ms: number) => (ms / 1_000).toFixed(1);
  const slowest = seconds(Math.max(...startTimes));
  checks.check(
    `${rounds} kills, ${startTimes.length} starts on the same folder, the slowest ${slowest} s (limit ${seconds(startLimit(startTimes))} s)`,
    found.start,
  );
  checks.check('every start answers through each door, every answer is that of its own request', found.answers);
  checks.check(
    `every response that a client saw complete has its record: ${acknowledged} responses, ${byTerminalAlone} of them cut behind their terminal event`,
    [...(acknowledged === 0 ? ['no response was complete'] : []), ...found.unrecorded],
  );
  checks.check(
    `every record id that a client saw leads to a record after the next start: ${cutOff} calls were cut off behind their heads`,
    [...(cutOff === 0 ? ['no call was cut off behind its head'] : []), ...found.forgotten],
  );
  checks.check(
    'each of these records is that of its call, with the hash that was announced and the SHA-256 of the bytes that came',
    found.otherRecord,
  );
  checks.check(`every stored record's hash recomputes: ${known.size} records`, found.badHashes);
  checks.check('no record is stored twice, no call has two', found.doubles);
  checks.check('no record is lost or changed by a later kill', found.lost);
  checks.check('every record belongs to a call', found.strangers);
  checks.check(`the roll-ups equal a recount over all records to the last digit: ${counted} counters`, found.counters);
  checks.check('the last gateway ends in order', ending);
  checks.note('       where the kills found the calls that were under way:');
  for (const [window, calls] of [...windows].sort(([, a], [, b]) => b - a)) checks.note(`         ${String(calls).padStart(5)}  ${window}`);
}
