// What every driver of the allowance must do, whatever stands behind it: plain data in and out, once for one id, and
// never past a cap.
import type { Test } from 'tap';
import { picoFromUsd } from '../../src/base/lib/money.ts';
import type { BudgetLimit } from '../../src/base/model/budget-limit.ts';
import {
  type Allowance,
  type Ask,
  type CapExceeded,
  type Grant,
  isRefused,
  type Refused,
  type SettledCall,
} from '../../src/services/money/allowance.ts';
import type { Effect } from '../../src/storage/contract/store.ts';
import { exactly } from '../support/exactly.ts';
import { fakeClock } from '../support/fake-clock.ts';

export interface AllowanceUnderTest {
  readonly allowance: Allowance;
  /** Lays down a limit of the org `o`. */
  limit(limit: Pick<BudgetLimit, 'limit_usd'> & Partial<BudgetLimit>): Promise<BudgetLimit>;
  /** Commits what a call is settled with, as its record would. */
  commit(effects: readonly Effect[], settled: SettledCall): Promise<void>;
  /** Another driver on the same store, after the end of this one. */
  reopen(): Promise<AllowanceUnderTest>;
}

export interface AllowanceOptions {
  readonly clock: ReturnType<typeof fakeClock>;
  /** Requests of each org and month. */
  readonly monthlyLimit?: number;
}

type Open = (t: Test, options: AllowanceOptions) => Promise<AllowanceUnderTest>;

const SPENDER = { orgId: 'o', workloadId: 'w', projectId: 'p', connectorId: 'openai', providerId: 'openai' };
const WHO = { orgId: 'o', workloadId: 'w' };
const RULE = { layer: 'targets', rule_id: 'few', requests_per_minute: 2 };
/** A Wednesday, 23:40 UTC. */
const START = Date.UTC(2026, 10, 18, 23, 40);
const HOUR = 3_600_000;
let ids = 0;

function moneyAsk(usd: string, more: Partial<Ask['spend']> = {}): Ask {
  return { ...WHO, id: `call-${ids++}`, spend: { spender: SPENDER, pico: String(picoFromUsd(usd)), ...more } };
}

function cost(usd: string, clock: AllowanceOptions['clock'], more: Partial<SettledCall> = {}): SettledCall {
  return { spender: SPENDER, pico: picoFromUsd(usd), at: clock.now(), isMade: true, ...more };
}

async function granted(allowance: Allowance, ask: Ask): Promise<Grant> {
  const answer = await allowance.take(ask);
  if (answer === undefined || isRefused(answer)) throw new Error(`refused: ${JSON.stringify(answer)}`);
  return answer;
}

async function refused(allowance: Allowance, ask: Ask): Promise<Refused | undefined> {
  const answer = await allowance.take(ask);
  if (answer !== undefined && isRefused(answer)) return answer;
  await allowance.giveBack(ask.id);
  return undefined;
}

/** A whole call: taken, settled, stored. */
async function spend({ allowance, commit }: AllowanceUnderTest, usd: string, clock: AllowanceOptions['clock']): Promise<void> {
  const { id } = await granted(allowance, moneyAsk(usd));
  const settled = cost(usd, clock);
  await commit(await allowance.settle(id, settled), settled);
  await allowance.stored(id);
}

/** Tests one driver. */
export function allowanceContract(t: Test, open: Open): void {
  t.test('asks, grants and refusals are what JSON can hold', async (t) => {
    const clock = fakeClock(START);
    const { allowance, limit } = await open(t, { clock });
    await limit({ limit_usd: '1' });
    const ask = moneyAsk('0.4');
    const grant = await allowance.take(ask);
    t.strictSame(JSON.parse(JSON.stringify([ask, grant])), [ask, grant]);
    t.match(grant, { id: ask.id, capped: true, watched: true, pico: exactly('400000000000') });
    const refusal = (await allowance.take(moneyAsk('0.7'))) as Refused;
    t.strictSame(JSON.parse(JSON.stringify(refusal)), refusal);
  });

  t.test('each verb counts once for one id', async (t) => {
    const clock = fakeClock(START);
    const under = await open(t, { clock, monthlyLimit: 2 });
    const { allowance, limit, commit } = under;
    await limit({ limit_usd: '1' });
    const ask: Ask = { ...moneyAsk('0.4'), month: true, rate: { rules: [RULE] } };
    t.strictSame(await granted(allowance, ask), await granted(allowance, ask), 'taken twice');
    t.equal(await refused(allowance, moneyAsk('0.6')), undefined, 'one part of the cap, not two');
    t.equal(await refused(allowance, { ...WHO, id: 'month', month: true }), undefined);
    t.equal(await refused(allowance, { ...WHO, id: 'rate', rate: { rules: [RULE] } }), undefined);
    const settled = cost('0.3', clock);
    const effects = await allowance.settle(ask.id, settled);
    t.strictSame(await allowance.settle(ask.id, settled), effects, 'settled twice');
    await commit(effects, settled);
    for (let twice = 0; twice < 2; twice += 1) await allowance.stored(ask.id);
    for (let twice = 0; twice < 2; twice += 1) await allowance.giveBack(ask.id);
    await allowance.failed(ask.id);
    t.strictSame(await allowance.settle(ask.id, settled), [], 'of what is settled nothing is taken');
    t.match(await refused(allowance, moneyAsk('0.71')), { spentUsd: exactly('0.3'), reservedUsd: exactly('0') });
    const other = moneyAsk('0.7');
    await granted(allowance, other);
    for (let twice = 0; twice < 2; twice += 1) await allowance.giveBack(other.id);
    t.match(await refused(allowance, moneyAsk('0.71')), { reservedUsd: exactly('0') }, 'given back twice');
    await allowance.giveBack('nothing');
    t.equal(await allowance.grow('nothing', 5n), undefined);
  });

  t.test('all of an ask is granted, or nothing', async (t) => {
    const clock = fakeClock(START);
    const { allowance, limit } = await open(t, { clock, monthlyLimit: 1 });
    await limit({ limit_usd: '1' });
    const whole = (usd: string): Ask => ({ ...moneyAsk(usd), month: true, rate: { rules: [RULE] } });
    for (let at = 0; at < 5; at += 1) t.match(await refused(allowance, whole('2')), { kind: 'limit' }, 'takes neither tokens nor requests');
    await granted(allowance, whole('1'));
    t.match(await refused(allowance, whole('0')), { kind: 'requests', resetsAt: Date.UTC(2026, 11, 1) });
    await granted(allowance, { ...WHO, id: 'second', rate: { rules: [RULE] } });
    t.match(await refused(allowance, { ...WHO, id: 'third', rate: { rules: [RULE] } }), {
      kind: 'rate',
      rule: RULE,
      retryAfterSeconds: 30,
    });
    t.equal(await allowance.take({ ...WHO, id: 'none' }), undefined, 'who asks for nothing gets nothing');
  });

  t.test('interleaved calls never pass a cap together', async (t) => {
    const clock = fakeClock(START);
    const under = await open(t, { clock });
    await under.limit({ limit_usd: '1' });
    const call = async (at: number, round: number): Promise<boolean> => {
      const answer = await under.allowance.take(moneyAsk('0.3'));
      if (answer === undefined || isRefused(answer)) return false;
      const settled = cost('0.2', clock);
      const effects = await under.allowance.settle(answer.id, settled);
      if ((at + round) % 3 === 0) {
        await under.allowance.failed(answer.id);
        await under.allowance.giveBack(answer.id, true);
        return false;
      }
      await under.commit(effects, settled);
      await under.allowance.stored(answer.id);
      return true;
    };
    for (let round = 0; round < 6; round += 1) {
      const stored = (await Promise.all(Array.from({ length: 20 }, (_, at) => call(at, round)))).filter(Boolean).length;
      t.ok(stored <= 4, `${stored} at once`);
    }
    const { spentUsd, reservedUsd } = (await refused(under.allowance, moneyAsk('5'))) as CapExceeded;
    t.same([spentUsd, reservedUsd], ['0.8', '0'], 'four calls, and the fifth would pass it');
  });

  t.test('a stream grows up to its caps, and what others have taken counts', async (t) => {
    const clock = fakeClock(START);
    const { allowance, limit } = await open(t, { clock });
    await limit({ limit_usd: '1' });
    const [one, two] = [await granted(allowance, moneyAsk('0.2')), await granted(allowance, moneyAsk('0.2', { monthlyCapUsd: '0.9' }))];
    const grow = (grant: Grant, usd: string) => allowance.grow(grant.id, picoFromUsd(usd));
    t.equal(await grow(one, '0.1'), undefined, 'less than was taken changes nothing');
    t.equal(await grow(one, '0.6'), undefined);
    t.equal(await grow(one, '0.6'), undefined, 'twice is once');
    t.match(await grow(two, '0.31'), { kind: 'month', capUsd: exactly('0.9'), reservedUsd: exactly('0.6') });
    t.equal(await grow(two, '0.3'), undefined, 'what was refused has changed nothing');
    t.match(await grow(one, '0.71'), { kind: 'limit', reservedUsd: exactly('0.3') });
    await allowance.giveBack(one.id);
    t.equal(await grow(two, '0.9'), undefined);
  });

  t.test('what cannot be stored is as before, and what leaves no record counts nowhere', async (t) => {
    const clock = fakeClock(START);
    const { allowance, limit } = await open(t, { clock, monthlyLimit: 1 });
    await limit({ limit_usd: '1' });
    const ask: Ask = { ...moneyAsk('0.8'), month: true };
    await granted(allowance, ask);
    await allowance.settle(ask.id, cost('0.1', clock));
    t.equal(await refused(allowance, moneyAsk('0.9')), undefined, 'the real cost stands in the place of the estimate');
    await allowance.failed(ask.id);
    t.match(await refused(allowance, moneyAsk('0.9')), { spentUsd: exactly('0'), reservedUsd: exactly('0.8') });
    t.match(await refused(allowance, { ...WHO, id: 'next', month: true }), { kind: 'requests' });
    await allowance.giveBack(ask.id);
    t.equal(await refused(allowance, moneyAsk('1')), undefined);
    t.equal(await refused(allowance, { ...WHO, id: 'next', month: true }), undefined);
  });

  t.test('a refused call gives its tokens back, one that was made does not', async (t) => {
    const clock = fakeClock(START);
    const { allowance } = await open(t, { clock });
    const ask = (): Ask => ({ ...WHO, id: `rate-${ids++}`, rate: { rules: [RULE] } });
    const settledAs = async (isMade: boolean): Promise<void> => {
      const { id } = await granted(allowance, ask());
      await allowance.settle(id, cost('0', clock, { isMade }));
      await allowance.stored(id);
    };
    for (let at = 0; at < 5; at += 1) await settledAs(false);
    for (let at = 0; at < 5; at += 1) await allowance.giveBack((await granted(allowance, ask())).id);
    await settledAs(true);
    await allowance.giveBack((await granted(allowance, ask())).id, true);
    t.match(await refused(allowance, ask()), { kind: 'rate' });
  });

  t.test('tokens flow in again, and a refusal says when there is one', async (t) => {
    const clock = fakeClock(START);
    const { allowance } = await open(t, { clock });
    const ask = (): Ask => ({ ...WHO, id: `rate-${ids++}`, rate: { rules: [RULE] } });
    for (let at = 0; at < 2; at += 1) await granted(allowance, ask());
    const question = { ...WHO, rate: { rules: [RULE], alone: true } } as const;
    t.match(await allowance.peek(question), { empty: [RULE], refused: { kind: 'rate', retryAfterSeconds: 30 } });
    t.equal(await refused(allowance, { ...ask(), workloadId: 'another' }), undefined, 'each workload has its own');
    clock.advance(29_999);
    t.match(await refused(allowance, ask()), { retryAfterSeconds: 1 });
    clock.advance(1);
    t.match(await allowance.peek(question), { refused: undefined, capped: false, empty: [] });
    await granted(allowance, ask());
    t.match(await refused(allowance, ask()), { retryAfterSeconds: 30 });
  });

  t.test('peeking says what taking would, and takes nothing', async (t) => {
    const clock = fakeClock(START);
    const { allowance, limit } = await open(t, { clock });
    t.match(await allowance.peek(moneyAsk('5')), { capped: false, refused: undefined });
    await limit({ limit_usd: '1' });
    for (let at = 0; at < 3; at += 1) t.match(await allowance.peek(moneyAsk('1')), { capped: true, refused: undefined });
    t.match(await allowance.peek(moneyAsk('1.1')), { capped: true, refused: { kind: 'limit' } });
    await granted(allowance, moneyAsk('1'));
  });

  t.test('each window turns over at its own time, and a refusal names scope, window and that time', async (t) => {
    const ends = [
      ['hourly', Date.UTC(2026, 10, 19)],
      ['daily', Date.UTC(2026, 10, 19)],
      ['weekly', Date.UTC(2026, 10, 23)],
      ['monthly', Date.UTC(2026, 11, 1)],
    ] as const;
    for (const [period, resetsAt] of ends) {
      const clock = fakeClock(START);
      const under = await open(t, { clock });
      const { limit_id } = await under.limit({ limit_usd: '1', period, scope: 'project', scope_id: 'p' });
      await spend(under, '1', clock);
      const named = { kind: 'limit', resetsAt, capUsd: exactly('1'), limit: { limit_id, period, scope: 'project' } };
      t.match(await refused(under.allowance, moneyAsk('0.5')), named);
      const another = { ...SPENDER, projectId: 'q' };
      t.equal(await refused(under.allowance, moneyAsk('1', { spender: another })), undefined, 'another project');
      clock.set(resetsAt - 1);
      t.match(await refused(under.allowance, moneyAsk('0.5')), named, 'to the last millisecond');
      clock.set(resetsAt);
      t.equal(await refused(under.allowance, moneyAsk('1')), undefined);
    }
  });

  t.test('a start in the middle of an hour goes on where the one before ended, in every scope, and the hour turns', async (t) => {
    const scopes = [
      { scope: 'org' },
      { scope: 'project', scope_id: 'p' },
      { scope: 'workload', scope_id: 'w' },
      { scope: 'provider', scope_id: 'openai' },
    ] as const;
    for (const [by, connectorId] of [...scopes.map((scope) => [scope, 'openai'] as const), [scopes[3], 'generic_http'] as const]) {
      const clock = fakeClock(START - HOUR);
      const spender = { ...SPENDER, connectorId };
      const under = await open(t, { clock });
      const { limit_id } = await under.limit({ limit_usd: '1', period: 'hourly', ...by });
      const once = async (one: AllowanceUnderTest, usd: string): Promise<void> => {
        const { id } = await granted(one.allowance, moneyAsk(usd, { spender }));
        const settled = cost(usd, clock, { spender });
        await one.commit(await one.allowance.settle(id, settled), settled);
        await one.allowance.stored(id);
      };
      await once(under, '0.9');
      clock.advance(HOUR);
      await once(under, '0.3');
      clock.advance(5 * 60_000);
      const again = await under.reopen();
      const named = { spentUsd: exactly('0.3'), resetsAt: Date.UTC(2026, 10, 19), limit: { limit_id } };
      t.match(await refused(again.allowance, moneyAsk('0.8', { spender })), named, JSON.stringify([by, connectorId]));
      await once(again, '0.7');
      t.match(await refused(again.allowance, moneyAsk('0.1', { spender })), { ...named, spentUsd: exactly('1') });
      clock.set(Date.UTC(2026, 10, 19));
      t.equal(await refused((await again.reopen()).allowance, moneyAsk('1', { spender })), undefined, 'a new hour, and a new day');
    }
  });

  t.test('the budget of a delegation counts over its life, for every link', async (t) => {
    const clock = fakeClock(START);
    const under = await open(t, { clock });
    const delegations = [
      { delegationId: 'root', capUsd: '1' },
      { delegationId: 'leaf', capUsd: '0.5' },
    ];
    const by = (usd: string) => moneyAsk(usd, { spender: { ...SPENDER, delegations } });
    const all = await Promise.all(Array.from({ length: 5 }, async () => under.allowance.take(by('0.2'))));
    t.equal(all.filter((one) => one !== undefined && !isRefused(one)).length, 2, 'also while it is read');
    t.match(
      all.find((one) => one !== undefined && isRefused(one)),
      { kind: 'delegation', delegationId: 'leaf', resetsAt: undefined },
    );
    clock.advance(400 * 24 * HOUR);
    t.match(await refused(under.allowance, by('0.2')), { kind: 'delegation', reservedUsd: exactly('0.4') });
  });

  t.test('a start begins from the counters that are stored: what was not settled is no longer taken', async (t) => {
    const clock = fakeClock(START);
    const under = await open(t, { clock, monthlyLimit: 3 });
    await under.limit({ limit_usd: '1' });
    await spend(under, '0.6', clock);
    const month: Ask = { ...WHO, id: 'm', month: true };
    await granted(under.allowance, month);
    const settled = cost('0', clock);
    await under.commit(await under.allowance.settle('m', settled), settled);
    await granted(under.allowance, moneyAsk('0.4'));
    const again = await under.reopen();
    t.match(await refused(again.allowance, moneyAsk('0.5')), { spentUsd: exactly('0.6'), reservedUsd: exactly('0') });
    await granted(again.allowance, moneyAsk('1', { regardless: true }));
    t.match(await refused(again.allowance, moneyAsk('0')), { reservedUsd: exactly('1') }, 'what was set aside before is so again');
    for (const id of ['a', 'b']) await granted(again.allowance, { ...month, id });
    t.match(await refused(again.allowance, { ...month, id: 'c' }), { kind: 'requests' });
  });
}
