import { rmSync } from 'node:fs';
import { auditCopy, type Charged, type MoneyAudit, usdOf } from './budget-audit.ts';
import { type BudgetCall, BudgetCallers, type BudgetResult, drawBudgetCall, MONEY_DOORS, ratesOf } from './budget-calls.ts';
import { type PlacedLimit, placeLimit, removeLimit, shownLimits, spentAndReserved, spentOn } from './budget-limits.ts';
import type { ChargingUpstream } from './charging-upstream.ts';
import { type Checks, type CleanUp, sleep } from './checks.ts';
import { type Folders, ProofGateway } from './proof-gateway.ts';
import { Seeded } from './seeded.ts';

const CALLERS = 64;
const STOPPED = 'stream_stopped_at_cap';
/** The provider's socket says nothing before its end. */
const DOORS = MONEY_DOORS.filter((door) => door !== 'socket');
/** More than any event of the provider's is approximated to, rounded up. */
const EVENT_TOKENS = 4;
const IDLE_LIMIT_MS = 10_000;

export interface StreamProof {
  readonly seed: string;
  readonly folders: Folders;
  readonly env: Readonly<Record<string, string>>;
  readonly upstream: ChargingUpstream;
  readonly cleanUp: CleanUp;
}

class Findings {
  readonly passed: string[] = [];
  readonly sums: string[] = [];
  readonly reserved: string[] = [];
  readonly told: string[] = [];
  stopped = 0;
  whole = 0;
  furthest = 0n;
}

/**
 * `GW_STREAM_STOP_AT_CAP`: streams that go on far beyond the maximum that they state, from a provider that heeds none,
 * on every door that streams. A cap is passed by no more than the last event of each stream that was ended at it.
 */
export async function proveStreams(checks: Checks, proof: StreamProof, rounds: number): Promise<void> {
  const { folders, env, cleanUp } = proof;
  rmSync(folders.data, { recursive: true, force: true });
  const found = new Findings();
  const gateway = await ProofGateway.start(cleanUp, { ...env, GW_STREAM_STOP_AT_CAP: 'true' }, folders.work);
  let audit: MoneyAudit = { charged: [], openIntents: 0, wrongCounters: [] };
  for (const door of DOORS) {
    for (let round = 1; round <= rounds; round += 1) {
      const name = `${proof.seed}/streams/${door}/${round}`;
      audit = await playRound({ gateway, folders, found, name, random: new Seeded(name), before: audit, door });
    }
  }
  const { code, signal, stderr } = await gateway.stop();
  if (code !== 0) found.told.push(`the gateway ended with ${code ?? signal}: ${stderr}`);
  const { stopped, whole, furthest } = found;
  checks.check(
    `a stream that goes beyond its estimate passes its cap by no more than its last event: ${stopped} were ended, the furthest ${usdOf(furthest)} USD beyond`,
    [...(stopped === 0 || whole === 0 ? [`${stopped} streams were ended and ${whole} were not`] : []), ...found.passed],
  );
  checks.check('... what is spent then is what the records cost, to the last digit', found.sums);
  checks.check('... nothing stays set aside, no intent open', found.reserved);
  checks.check('... the client of each that was ended is told so, once, at its end', found.told);
}

interface Round {
  readonly gateway: ProofGateway;
  readonly folders: Folders;
  readonly found: Findings;
  readonly name: string;
  readonly random: Seeded;
  readonly before: MoneyAudit;
  readonly door: (typeof DOORS)[number];
}

async function playRound({ gateway, folders, found, name, random, before, door }: Round): Promise<MoneyAudit> {
  const calls = Array.from({ length: CALLERS }, (_, at) => drawStream(random, `${name}-${at}`, door));
  const spentBefore = spentOn({ scope: 'org', scopeId: '' }, '', before.charged);
  // Each event of the provider's is about two tokens.
  const wanted = calls.reduce((sum, call) => sum + costOf(call, BigInt(call.charge.events) * 2n), 0n);
  const cap = spentBefore + (wanted * BigInt(random.between(20, 80))) / 100n;
  const limit = await placeLimit(gateway, { scope: 'org', scopeId: '', period: 'monthly', capPico: cap });
  const callers = new BudgetCallers(gateway.address);
  const results = await Promise.all(calls.map((call, lane) => callers.perform(call, lane)));
  await callers.close();
  const spent = await spentWhenIdle(gateway, limit, found, name);
  const audit = await auditCopy(folders);
  const fresh = audit.charged.slice(before.charged.length);
  const recounted = spentOn(limit, '', audit.charged);
  if (spent !== recounted) found.sums.push(`${name}: ${usdOf(spent)} is shown, the records cost ${usdOf(recounted)}`);
  found.sums.push(...audit.wrongCounters.map((problem) => `${name}: ${problem}`));
  if (audit.openIntents > 0) found.reserved.push(`${name}: ${audit.openIntents} intents are open`);
  weigh(found, name, spent - cap, fresh, calls);
  for (const result of results) weighAnswer(found, name, result, fresh);
  await removeLimit(gateway, limit);
  return audit;
}

/**
 * A stream of up to 300 events that states a few tokens; the provider charges no more than what it says, and the input
 * at most as it is counted.
 */
function drawStream(random: Seeded, tag: string, door: Round['door']): BudgetCall {
  const call = drawBudgetCall(random, { tag, door, project: '', workload: 'default', exact: true });
  if (random.chance(0.2)) return { ...call, idempotencyKey: undefined };
  const events = random.between(30, 300);
  const charge = { ...call.charge, tokensIn: random.between(0, call.prompt), tokensOut: random.between(1, events), events };
  const maxTokens = random.between(1, 40);
  return { ...call, embeds: false, answers: 1, maxTokens, estimates: undefined, idempotencyKey: undefined, charge };
}

function costOf(call: BudgetCall, tokensOut: bigint): bigint {
  const [input, output] = ratesOf(call);
  return BigInt(call.prompt) * input + tokensOut * output;
}

async function spentWhenIdle(gateway: ProofGateway, { id }: PlacedLimit, found: Findings, name: string): Promise<bigint> {
  const started = performance.now();
  for (;;) {
    const limit = (await shownLimits(gateway)).get(id);
    if (limit === undefined) throw new Error(`${name}: the limit is gone`);
    const { spent, reserved } = spentAndReserved(limit);
    if (reserved === 0n) return spentAndReserved((await shownLimits(gateway)).get(id) ?? limit).spent;
    if (performance.now() - started > IDLE_LIMIT_MS) {
      found.reserved.push(`${name}: ${usdOf(reserved)} is still set aside when nobody calls`);
      return spent;
    }
    await sleep(20);
  }
}

/**
 * The law: what is settled and set aside passes the cap by no more than the last event of each stream that was ended
 * there.
 */
function weigh(found: Findings, name: string, beyond: bigint, fresh: readonly Charged[], calls: readonly BudgetCall[]): void {
  const byTag = new Map(calls.map((call) => [call.tag, call]));
  let allowed = 0n;
  for (const { tag, reasonCodes, forwarded } of fresh) {
    const call = byTag.get(tag);
    if (call === undefined) found.sums.push(`${name}: a record of no call: ${tag}`);
    else if (reasonCodes.includes(STOPPED)) {
      found.stopped += 1;
      allowed += BigInt(lastEventTokens(call)) * ratesOf(call)[1];
    } else if (forwarded) found.whole += 1;
  }
  if (beyond > found.furthest) found.furthest = beyond;
  if (beyond > allowed) found.passed.push(`${name}: the cap is passed by ${usdOf(beyond)}, last events cost at most ${usdOf(allowed)}`);
}

/**
 * Up to half beyond the maximum that a call states, more is taken for an error of the approximation; the event that
 * shows that it is none counts that half as well.
 */
function lastEventTokens({ maxTokens }: BudgetCall): number {
  return EVENT_TOKENS + Math.ceil(maxTokens / 2);
}

function weighAnswer(found: Findings, name: string, { call, status, text }: BudgetResult, fresh: readonly Charged[]): void {
  if (status !== 200 || call.charge.fate !== 'answer') return;
  const stopped = fresh.some(({ tag, reasonCodes }) => tag === call.tag && reasonCodes.includes(STOPPED));
  const said = text.split(`"${STOPPED}"`).length - 1;
  const whole = text.includes('[DONE]');
  if (stopped ? said === 0 || whole : said > 0) found.told.push(`${name}: ${call.tag} was told ${text.slice(-300)}`);
}
