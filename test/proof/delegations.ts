/*
 * Budgets of delegation tokens under concurrency, with clients that leave, providers that fail and SIGKILL between
 * (decision 9.4): no link of a chain spends more than its `usd_max`, over all calls that are made with it and with what
 * was made of it, and what is counted for it is what its records cost, to the last digit.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Issuer, lasting } from '../decide/delegation/delegation-tokens.ts';
import { auditCopy, type Charged, usdOf } from './budget-audit.ts';
import { type BudgetCall, BudgetCallers, drawBudgetCall, reservationOf } from './budget-calls.ts';
import { startChargingUpstream } from './charging-upstream.ts';
import { prove, sleep } from './checks.ts';
import { ProofGateway, proofEnvironment, proofFolders } from './proof-gateway.ts';
import { Seeded } from './seeded.ts';
import { proofSettings } from './settings.ts';

const CALLERS = 64;
/** What is sent before the gateway dies, in a round in which it does. */
const HALF = CALLERS / 2;
const ROUNDS = { tenth: 6, full: 60, long: 60 };
const IDLE_LIMIT_MS = 10_000;
const LEAVES = 3;
const BUNDLE = `schema: gw.policy_bundle.v1
bundle_id: proof
version: "1"
inline_rules:
  targets: [{id: all, effect: {decision: allow}}]
`;
const EXCEEDED = 'delegation_budget_exceeded';

/** A link with a budget. */
interface Capped {
  readonly id: string;
  readonly capPico: bigint;
}

interface Findings {
  readonly passed: string[];
  readonly counters: string[];
  readonly open: string[];
  readonly answers: string[];
  reached: number;
  records: number;
}

await prove(async (checks, cleanUp) => {
  const settings = proofSettings();
  const rounds = settings.rounds ?? ROUNDS[settings.length];
  checks.note(`delegations: ${rounds} rounds of ${CALLERS} callers, seed ${settings.seed}`);
  const folders = proofFolders(cleanUp);
  const upstream = await startChargingUpstream(cleanUp);
  const issuer = new Issuer('proof');
  const policies = join(folders.root, 'policies');
  mkdirSync(policies);
  writeFileSync(join(policies, 'bundle.yaml'), BUNDLE);
  const env = { ...proofEnvironment(folders, upstream), GW_POLICIES_DIR: policies, GW_DELEGATION_VERIFY_KEY: `proof=${issuer.publicKey}` };
  const found: Findings = { passed: [], counters: [], open: [], answers: [], reached: 0, records: 0 };
  let gateway = await ProofGateway.start(cleanUp, env, folders.work);
  for (let round = 1; round <= rounds; round += 1) {
    const random = new Seeded(`${settings.seed}/${round}`);
    const isKilled = round % 2 === 0;
    const { calls, caps } = drawRound(random, issuer, round, isKilled);
    await play(gateway, calls.slice(0, HALF), found, isKilled ? random : undefined);
    if (isKilled) gateway = await ProofGateway.start(cleanUp, env, folders.work);
    // With the same tokens: what they have spent is known after a start.
    await play(gateway, calls.slice(HALF), found, undefined);
    const { charged, openIntents, wrongCounters } = await untilSettled(() => auditCopy(folders));
    if (openIntents > 0) found.open.push(`round ${round}: ${openIntents} intents are open`);
    found.counters.push(...wrongCounters.map((problem) => `round ${round}: ${problem}`));
    weigh(caps, charged, found, round);
    found.records = charged.length;
  }
  const { code, signal } = await gateway.stop();
  if (code !== 0) found.answers.push(`the gateway ended with ${code ?? signal}`);
  checks.note(`       ${found.records} records, ${found.reached} of the budgets were reached`);
  checks.check('no link of a chain has spent more than its budget', found.passed);
  checks.check('what is counted for a link is what its records cost', found.counters);
  checks.check('nothing stays under way', found.open);
  checks.check('every answer is that of its call, or a refusal for money', found.answers);
  checks.check('budgets were reached', found.reached >= rounds ? [] : [`${found.reached} in ${rounds} rounds`]);
});

/** Calls under one root, each with one of its tokens. */
function drawRound(
  random: Seeded,
  issuer: Issuer,
  round: number,
  isKilled: boolean,
): { calls: readonly BudgetCall[]; caps: readonly Capped[] } {
  const drawn = Array.from({ length: CALLERS }, (_, at) =>
    drawBudgetCall(random, { tag: `${round}-${at}`, door: 'direct', exact: true, project: '', workload: 'default' }),
  );
  // A gateway that dies at once has taken nothing of the first half: the other one alone is to reach the budgets.
  const certain = isKilled ? drawn.slice(HALF) : drawn;
  const wanted = certain.reduce((sum, call) => sum + reservationOf(call), 0n);
  const share = (percent: number): bigint => (wanted * BigInt(percent)) / 100n;
  const root = { id: `r${round}`, capPico: share(random.between(15, 60)) };
  const signedRoot = issuer.signed(lasting({ delegation_id: root.id, budget: { usd_max: usdOf(root.capPico) } }));
  const caps: Capped[] = [root];
  const texts = Array.from({ length: LEAVES }, (_, at) => {
    const id = `${root.id}-${at}`;
    const own = random.chance(0.6) ? share(random.between(2, 14)) : undefined;
    if (own !== undefined) caps.push({ id, capPico: own });
    return issuer.text(
      lasting({ delegation_id: id, parent: signedRoot, ...(own === undefined ? {} : { budget: { usd_max: usdOf(own) } }) }),
    );
  });
  const rootText = Buffer.from(JSON.stringify(signedRoot)).toString('base64');
  return { caps, calls: drawn.map((call) => ({ ...call, delegationToken: random.pick([rootText, ...texts]) })) };
}

/** All at once. @param kill draws the moment at which the gateway dies */
async function play(gateway: ProofGateway, calls: readonly BudgetCall[], found: Findings, kill: Seeded | undefined): Promise<void> {
  const callers = new BudgetCallers(gateway.address);
  const all = Promise.all(calls.map((call, lane) => callers.perform(call, lane)));
  if (kill) {
    await sleep(kill.between(0, 60));
    await gateway.kill();
  }
  const results = await all;
  await callers.close();
  for (const { call, status, text } of results) {
    if (status === undefined || status === 200 || status >= 500) continue;
    if (status !== 403 || !text.includes(EXCEEDED)) found.answers.push(`${call.tag}: ${status} ${text.slice(0, 200)}`);
  }
}

/** Until every call that was let in has its record: a client may leave before it. */
async function untilSettled<T extends { readonly openIntents: number }>(look: () => Promise<T>): Promise<T> {
  const started = performance.now();
  for (;;) {
    const seen = await look();
    if (seen.openIntents === 0 || performance.now() - started > IDLE_LIMIT_MS) return seen;
    await sleep(50);
  }
}

function weigh(caps: readonly Capped[], charged: readonly Charged[], found: Findings, round: number): void {
  const refused = charged.some(({ tag, reasonCodes }) => tag.startsWith(`${round}-`) && reasonCodes.includes(EXCEEDED));
  if (refused) found.reached += 1;
  for (const { id, capPico } of caps) {
    const spent = charged.filter(({ delegations }) => delegations.includes(id)).reduce((sum, { pico }) => sum + pico, 0n);
    if (spent > capPico) found.passed.push(`${id}: ${usdOf(spent)} spent of ${usdOf(capPico)}`);
  }
}
