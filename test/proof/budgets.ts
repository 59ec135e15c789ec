/*
 * Caps under concurrency, on every door, with clients that leave, providers that fail and SIGKILL between (decisions
 * 6.2, 6.8): no cap is passed, by more than calls were estimated too low, and what a limit says was spent is what the
 * records cost, to the last digit.
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { WHOLE_MONTH } from '../support/whole-month.ts';
import { auditCopy, type Charged, type MoneyAudit, usdOf } from './budget-audit.ts';
import {
  type BudgetCall,
  BudgetCallers,
  type BudgetResult,
  costOf,
  drawBudgetCall,
  MONEY_DOORS,
  type MoneyDoor,
  MUTATED,
  reservationOf,
} from './budget-calls.ts';
import { counts, drawPlace, type PlacedLimit, placeLimit, removeLimit, shownLimits, spentAndReserved, spentOn } from './budget-limits.ts';
import { proveStreams } from './budget-streams.ts';
import { type ChargingUpstream, startChargingUpstream } from './charging-upstream.ts';
import { type Checks, type CleanUp, prove, sleep } from './checks.ts';
import { type Folders, ProofGateway, proofEnvironment, proofFolders } from './proof-gateway.ts';
import { Seeded } from './seeded.ts';
import { proofSettings } from './settings.ts';

const CALLERS = 64;
const ROUNDS = { tenth: 20, full: 200, long: 200 };
/**
 * Rounds on one store folder, so that reading it again after each round stays cheap. One of them ends with a SIGKILL.
 */
const BLOCK = 20;
/**
 * What a tenth may take for a door, milliseconds: the next doors get fewer rounds where one took longer, yet so many at
 * least.
 */
const TENTH_DOOR_MS = 30_000;
const LEAST_ROUNDS = 4;
const WORKLOADS = ['default', 'one', 'two'];
/** Of the projects that a rule of policy caps by the month. */
const MONTHLY_PICO = 400_000_000_000n;
/**
 * All calls have ended when nothing is set aside any more; a gateway that has not forgotten them by then never will.
 */
const IDLE_LIMIT_MS = 10_000;

/** What is found wrong over all rounds; each check prints its own. */
class Findings {
  readonly passed: string[] = [];
  readonly overrun: string[] = [];
  readonly sums: string[] = [];
  readonly counters: string[] = [];
  readonly reserved: string[] = [];
  readonly intents: string[] = [];
  readonly costs: string[] = [];
  readonly answers: string[] = [];
  readonly recovered: string[] = [];
  forwarded = 0;
  refused = 0;
  records = 0;
  kills = 0;
  struck = 0;
  struckFree = 0;
  caps = 0;
  reached = 0;
  inexactPassed = 0;
  /** Streams that broke off before their usage. */
  approximated = 0;
  /** Largest amount by which a cap of an inexact round was passed, and what the law allowed there. */
  furthest: { by: bigint; allowed: bigint } = { by: 0n, allowed: 0n };
}

interface Block {
  readonly door: MoneyDoor;
  readonly seed: string;
  readonly folders: Folders;
  readonly env: Readonly<Record<string, string>>;
  readonly upstream: ChargingUpstream;
  readonly cleanUp: CleanUp;
  readonly found: Findings;
  /** Every call of this block, by tag. */
  readonly calls: Map<string, BudgetCall>;
  gateway: ProofGateway;
  /** Of the whole org: shows whether anything is still set aside. */
  watch: PlacedLimit;
  audit: MoneyAudit;
}

interface Round {
  readonly name: string;
  readonly random: Seeded;
  readonly exact: boolean;
  readonly killed: boolean;
  readonly calls: readonly BudgetCall[];
  /** Caps that stand from before the first call until after the last. */
  readonly caps: readonly PlacedLimit[];
}

await prove(async (checks, cleanUp) => {
  const settings = proofSettings();
  let rounds = settings.rounds ?? ROUNDS[settings.length];
  checks.note(`budgets: ${rounds} rounds of ${CALLERS} callers on each of ${MONEY_DOORS.length} doors, seed ${settings.seed}`);
  const folders = proofFolders(cleanUp);
  const upstream = await startChargingUpstream(cleanUp);
  const env = { ...WHOLE_MONTH, ...proofEnvironment(folders, upstream), GW_POLICIES_DIR: policies(folders) };
  const found = new Findings();
  for (const door of MONEY_DOORS) {
    const from = performance.now();
    for (let first = 1; first <= rounds; first += BLOCK) {
      const count = Math.min(BLOCK, rounds - first + 1);
      await playBlock({ door, seed: `${settings.seed}/${door}/${first}`, folders, env, upstream, cleanUp, found }, count);
    }
    checks.note(`       ${door}: ${rounds} rounds, ${found.records} records, ${found.refused} refusals, ${found.kills} kills so far`);
    if (settings.length === 'tenth') rounds = affordable(rounds, performance.now() - from);
  }
  report(checks, found);
  await proveStreams(checks, { seed: settings.seed, folders, env, upstream, cleanUp }, rounds);
});

/** So many rounds, or as many as a slow machine plays in the time that a tenth has for a door. */
function affordable(rounds: number, tookMs: number): number {
  return Math.max(Math.min(rounds, LEAST_ROUNDS), Math.min(rounds, Math.floor((rounds * TENTH_DOOR_MS) / tookMs)));
}

/** Allows everything, caps the projects of some rounds by the month, and sends some models on as others. */
function policies({ root }: Folders): string {
  const projects = Array.from({ length: BLOCK }, (_, at) => `monthly-${at + 1}`);
  const mutations = Object.entries(MUTATED).map(
    ([from, to]) =>
      `    - {id: "${from}", when: {field: context.action.params.model, equals: "${from}"}, effect: {mutations: [{key: action.params.model, value: "${to}"}]}}\n`,
  );
  const dir = join(root, 'policies');
  mkdirSync(dir);
  writeFileSync(
    join(dir, 'bundle.yaml'),
    `schema: gw.policy_bundle.v1
bundle_id: proof
version: "1"
inline_rules:
  targets:
    - {id: all, effect: {decision: allow}}
  budgets:
    - {id: monthly, when: {field: attribution.project_id, in: [${projects.join(', ')}]}, effect: {budget: {monthly_usd_max: "${usdOf(MONTHLY_PICO)}"}}}
  transforms:
${mutations.join('')}`,
  );
  return dir;
}

async function playBlock(given: Omit<Block, 'gateway' | 'watch' | 'audit' | 'calls'>, rounds: number): Promise<void> {
  const { folders, env, cleanUp, found } = given;
  rmSync(folders.data, { recursive: true, force: true });
  const gateway = await ProofGateway.start(cleanUp, env, folders.work);
  for (const workload of WORKLOADS.slice(1)) await gateway.ask('PUT', '/v1/admin/workloads', { workload_id: workload });
  const watch = await placeLimit(gateway, { scope: 'org', scopeId: '', period: 'monthly', capPico: undefined });
  const block: Block = { ...given, gateway, watch, calls: new Map(), audit: { charged: [], openIntents: 0, wrongCounters: [] } };
  const random = new Seeded(block.seed);
  const killIn = random.between(1, rounds);
  for (let round = 1; round <= rounds; round += 1) await playRound(block, round, round === killIn);
  found.records += block.audit.charged.length;
  const { code, signal, stderr } = await block.gateway.stop();
  if (code !== 0) found.answers.push(`${block.seed}: the gateway ended with ${code ?? signal}: ${stderr}`);
}

async function playRound(block: Block, number: number, killed: boolean): Promise<void> {
  const { door, seed, calls: all } = block;
  const random = new Seeded(`${seed}/${number}`);
  const exact = random.chance(0.6);
  const name = `${seed}/${number}${exact ? ' exact' : ''}${killed ? ' killed' : ''}`;
  const monthly = random.chance(0.3) ? [`monthly-${number}`] : [];
  const projects = [...monthly, 'apollo', 'gemini', ''].slice(0, random.between(1, 3));
  const calls = Array.from({ length: CALLERS }, (_, at) => {
    const who = { project: random.pick(projects), workload: random.pick(WORKLOADS) };
    return drawBudgetCall(random, { tag: `${number}-${at}`, door, exact, ...who });
  });
  for (const call of calls) {
    all.set(call.tag, call);
    all.set(`${call.tag}-again`, call);
  }
  const caps: PlacedLimit[] = [];
  for (let more = random.between(1, 3); more > 0; more -= 1) caps.push(await drawCap(block, random, calls));
  const round: Round = { name, random, exact, killed, calls, caps };
  const results = await play(block, round);
  const shown = await untilIdle(block, round);
  const before = block.audit.charged.length;
  block.audit = await auditCopy(block.folders);
  weigh(block, round, results, block.audit.charged.slice(before), shown);
  for (const cap of caps) await removeLimit(block.gateway, cap);
}

/** A cap that the calls reach: room for a part of what they set aside together. */
async function drawCap({ gateway, audit }: Block, random: Seeded, calls: readonly BudgetCall[]): Promise<PlacedLimit> {
  const place = drawPlace(random, calls);
  const wanted = calls.filter((call) => counts(place, call)).reduce((sum, call) => sum + reservationOf(call), 0n);
  // All that there is was spent within a month; a proof that runs over midnight begins a new day with a cap that is
  // wide.
  const spent = spentOn(place, '', audit.charged);
  return placeLimit(gateway, { ...place, capPico: spent + (wanted * BigInt(random.between(10, 70))) / 100n });
}

/**
 * All callers at once. Meanwhile somebody looks at the limits, makes one and removes it; in some rounds the gateway
 * dies.
 */
async function play(block: Block, round: Round): Promise<readonly BudgetResult[]> {
  const { gateway, found } = block;
  const { calls, random, killed } = round;
  const callers = new BudgetCallers(gateway.address);
  const performed = calls.flatMap((call, lane) => {
    const again = call.idempotencyKey === undefined ? [] : [{ ...call, tag: `${call.tag}-again`, abortAfter: undefined }];
    return [callers.perform(call, lane), ...again.map((retry) => callers.perform(retry, CALLERS + lane))];
  });
  let over = false;
  const all = Promise.all(performed).finally(() => {
    over = true;
  });
  if (killed) {
    await pickedMoment(random, block.upstream);
    found.kills += 1;
    await gateway.kill();
    // What the kernel still holds for a client is read before its end.
    await Promise.race([all, sleep(2_000)]);
  } else {
    const passing = random.chance(0.4) ? await placeLimit(gateway, { ...drawPlace(random, calls), capPico: 0n }) : undefined;
    if (passing) await removeLimit(gateway, passing);
    while (!over) {
      await look(block, round);
      await Promise.race([all, sleep(10)]);
    }
  }
  const closing = callers.close();
  const results = await all;
  await closing;
  if (killed) block.gateway = await ProofGateway.start(block.cleanUp, block.env, block.folders.work);
  return results;
}

/** When the provider has got some of the calls, and a fraction of a millisecond or some after that. */
async function pickedMoment(random: Seeded, upstream: ChargingUpstream): Promise<void> {
  let left = random.between(1, 12);
  await new Promise<void>((resolve) => {
    const giveUp = setTimeout(resolve, 2_000);
    upstream.onCall = () => {
      left -= 1;
      if (left > 0) return;
      clearTimeout(giveUp);
      resolve();
    };
  });
  upstream.onCall = () => undefined;
  if (random.chance(0.7)) await sleep(random.between(0, 25));
}

/** While calls are under way: in an exact round what is spent and what is set aside stay below the cap together. */
async function look({ gateway, found }: Block, { caps, exact, name }: Round): Promise<void> {
  const shown = await shownLimits(gateway);
  for (const cap of caps) {
    const limit = shown.get(cap.id);
    if (limit === undefined || cap.capPico === undefined) continue;
    const { spent, reserved } = spentAndReserved(limit);
    if (reserved < 0n) found.reserved.push(`${name}: ${usdOf(-reserved)} less than nothing is set aside`);
    if (exact && spent + reserved > cap.capPico) {
      found.passed.push(`${name}: ${usdOf(spent)} spent and ${usdOf(reserved)} set aside under ${describe(cap)}`);
    }
  }
}

/**
 * Until nothing is set aside, and then once more: the record that released the last of it is committed in the same
 * turn.
 */
async function untilIdle({ gateway, watch, found }: Block, { name }: Round): Promise<Awaited<ReturnType<typeof shownLimits>>> {
  const started = performance.now();
  for (;;) {
    const shown = await shownLimits(gateway);
    const limit = shown.get(watch.id);
    if (limit?.reserved_usd === '0') return shownLimits(gateway);
    if (performance.now() - started > IDLE_LIMIT_MS) {
      found.reserved.push(`${name}: ${limit?.reserved_usd} is still set aside when nobody calls`);
      return shown;
    }
    await sleep(20);
  }
}

/** Holds what the limits show against what the records cost. */
function weigh(
  { audit, found, calls, watch }: Block,
  round: Round,
  results: readonly BudgetResult[],
  fresh: readonly Charged[],
  shown: Awaited<ReturnType<typeof shownLimits>>,
): void {
  const { name, caps } = round;
  if (audit.openIntents > 0) found.intents.push(`${name}: ${audit.openIntents} intents are open`);
  found.counters.push(...audit.wrongCounters.map((problem) => `${name}: ${problem}`));
  for (const limit of [watch, ...caps]) {
    const seen = shown.get(limit.id);
    if (seen === undefined) {
      found.sums.push(`${name}: the limit ${describe(limit)} is gone`);
      continue;
    }
    const { spent, reserved } = spentAndReserved(seen);
    const recounted = spentOn(limit, seen.period_start, audit.charged);
    if (spent !== recounted) found.sums.push(`${name}: ${describe(limit)} shows ${usdOf(spent)}, its records cost ${usdOf(recounted)}`);
    if (reserved !== 0n) found.reserved.push(`${name}: ${usdOf(reserved)} is set aside under ${describe(limit)} when nobody calls`);
    if (limit.capPico !== undefined) weighCap(found, round, limit, { capPico: limit.capPico, spent }, { fresh, calls });
  }
  for (const project of new Set(round.calls.map((call) => call.project).filter((id) => id.startsWith('monthly-')))) {
    const limit = { scope: 'project', scopeId: project, period: 'monthly', capPico: MONTHLY_PICO, id: '' } as const;
    weighCap(found, round, limit, { capPico: MONTHLY_PICO, spent: spentOn(limit, '', audit.charged) }, { fresh, calls });
  }
  weighCalls(found, round, results, fresh, calls);
}

/**
 * The law: when the last call was let in, settled + set aside + its estimate did not pass the cap. So the cap is passed
 * by no more than the calls that ended after that were estimated too low; and in an exact round no call is.
 */
function weighCap(
  found: Findings,
  { exact, name }: Round,
  limit: PlacedLimit,
  { capPico, spent }: { capPico: bigint; spent: bigint },
  { fresh, calls }: { fresh: readonly Charged[]; calls: ReadonlyMap<string, BudgetCall> },
): void {
  const mine = fresh.filter((record) => counts(limit, record));
  found.caps += 1;
  if (mine.some(({ reasonCodes }) => reasonCodes.some((code) => /^budget_(limit|monthly_usd_max)_exceeded$/.test(code))))
    found.reached += 1;
  if (spent <= capPico) return;
  const by = spent - capPico;
  if (exact) {
    found.passed.push(`${name}: ${usdOf(spent)} spent under ${describe(limit)}`);
    return;
  }
  const letIn = mine.filter(({ forwarded }) => forwarded);
  const lastBegan = letIn.reduce((last, { createdAt }) => (createdAt > last ? createdAt : last), '');
  const allowed = letIn.filter(({ completedAt }) => completedAt >= lastBegan).reduce((sum, record) => sum + tooLow(record, calls), 0n);
  found.inexactPassed += 1;
  if (by > found.furthest.by) found.furthest = { by, allowed };
  if (by > allowed)
    found.overrun.push(`${name}: ${describe(limit)} is passed by ${usdOf(by)}, estimates were too low by ${usdOf(allowed)}`);
}

/** By how much the call's reservation was smaller than its cost. */
function tooLow({ tag, pico }: Charged, calls: ReadonlyMap<string, BudgetCall>): bigint {
  const call = calls.get(tag);
  const reserved = call === undefined ? 0n : reservationOf(call);
  return pico > reserved ? pico - reserved : 0n;
}

/**
 * Each record is that of a call, and costs what the provider charged; one that the kill left behind costs what was set
 * aside, and a stream that broke off before its usage what was seen of it, which is no more.
 */
function weighCalls(
  found: Findings,
  { name, exact, caps }: Round,
  results: readonly BudgetResult[],
  fresh: readonly Charged[],
  calls: ReadonlyMap<string, BudgetCall>,
): void {
  const byTag = new Map(fresh.map((record) => [record.tag, record]));
  if (byTag.size !== fresh.length) found.costs.push(`${name}: ${fresh.length} records of ${byTag.size} calls`);
  for (const record of fresh) {
    const call = calls.get(record.tag);
    if (call === undefined) {
      found.costs.push(`${name}: the record ${record.id} belongs to no call: ${record.tag}`);
      continue;
    }
    if (record.forwarded) found.forwarded += 1;
    if (record.reasonCodes.some((code) => code.startsWith('budget_'))) found.refused += 1;
    if (record.reasonCodes.includes('gateway_restarted')) {
      found.struck += 1;
      if (!caps.some((cap) => cap.capPico !== undefined && counts(cap, record))) found.struckFree += 1;
      if (record.pico !== reservationOf(call))
        found.recovered.push(`${name}: ${record.tag} costs ${usdOf(record.pico)}, ${usdOf(reservationOf(call))} was set aside`);
    } else if (record.approximated) {
      found.approximated += 1;
      if (tooLow(record, calls) > 0n)
        found.costs.push(`${name}: ${record.tag} broke off and costs more than was set aside: ${usdOf(record.pico)}`);
    } else if (record.pico !== 0n && record.pico !== costOf(call)) {
      found.costs.push(`${name}: ${record.tag} costs ${usdOf(record.pico)}, the provider charged ${usdOf(costOf(call))}`);
    }
    if (exact && tooLow(record, calls) > 0n) found.costs.push(`${name}: ${record.tag} cost more than was set aside in an exact round`);
  }
  for (const { call, status, text, recordId } of results) {
    const record = byTag.get(call.tag);
    const allowed = [
      200,
      403,
      ...(typeof call.charge.fate === 'number' ? [call.charge.fate] : []),
      ...(call.charge.fate === 'answer' ? [] : [502]),
    ];
    if (status === undefined) continue;
    if (!allowed.includes(status)) found.answers.push(`${name}: ${call.tag} was answered ${status}: ${text.slice(0, 200)}`);
    if (status !== 200 || call.charge.fate !== 'answer') continue;
    // A repeated answer is that of the first record.
    const own = record ?? fresh.find(({ id }) => id === recordId);
    if (own?.pico !== costOf(call))
      found.costs.push(
        `${name}: ${call.tag} was answered whole and costs ${own ? usdOf(own.pico) : 'nothing on record'}, not ${usdOf(costOf(call))}`,
      );
  }
}

function describe({ scope, scopeId, period, capPico }: PlacedLimit): string {
  return `${capPico === undefined ? 'no cap' : `a cap of ${usdOf(capPico)}`} (${scope} ${scopeId}, ${period})`;
}

function report(checks: Checks, found: Findings): void {
  const { forwarded, refused, records, kills, struck, struckFree, caps, reached, inexactPassed, furthest, approximated } = found;
  const vacuous = reached * 2 < caps || refused === 0 ? [`only ${reached} of ${caps} caps were reached`] : [];
  checks.check(
    `no cap is ever passed when every call states a maximum and no input is estimated too low: ${reached} of ${caps} caps were reached`,
    [...vacuous, ...found.passed],
  );
  checks.check(
    `otherwise by no more than the calls under way were estimated too low: ${inexactPassed} caps were passed, the furthest by ${usdOf(furthest.by)} of ${usdOf(furthest.allowed)} USD`,
    [...(inexactPassed === 0 ? ['no cap was passed, so nothing was shown'] : []), ...found.overrun],
  );
  checks.check('what each limit shows as spent is what its records cost, to the last digit', found.sums);
  checks.check('... and so do the roll-ups', found.counters);
  checks.check('nothing stays set aside when nobody calls', found.reserved);
  checks.check('no intent stays open', found.intents);
  checks.check(
    `each record costs what the provider charged, or what was seen of a stream that broke off: ${records} records, ${forwarded} calls forwarded, ${refused} refused for money, ${approximated} streams broken off`,
    found.costs,
  );
  checks.check(
    `${kills} kills left ${struck} calls under way, ${struckFree} under no limit's cap, each charged at what was set aside for it`,
    [...(struck === 0 ? ['no kill found a call under way'] : []), ...found.recovered],
  );
  checks.check('every answer is one of those that its call may have', found.answers);
}
