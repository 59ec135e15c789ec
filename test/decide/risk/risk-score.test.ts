// How unusual a request is for its caller, and what score that makes.
import t from 'tap';
import { RISK_SIGNALS, type RiskSignal } from '../../../src/base/model/risk-alert.ts';
import { age, arrive, newProfile, type RiskProfile, type RiskRequest, settle, targetHash } from '../../../src/decide/risk/risk-profile.ts';
import { type RiskSettings, riskScore } from '../../../src/decide/risk/risk-score.ts';

// A Monday, 09:00 UTC.
const START = Date.parse('2026-11-02T09:00:00Z');
const MINUTE = 60_000;
const SETTINGS: RiskSettings = {
  minSamples: 50,
  weights: { rate_spike: 0.6, cost_anomaly: 0.6, new_target: 0.4, off_hours: 0.4, deny_burst: 0.7, prompt_size_anomaly: 0.5 },
  thresholds: { rate_spike: 4, cost_anomaly: 4, new_target: 20, off_hours: 6, deny_burst: 5, prompt_size_anomaly: 4 },
};
const NONE = { rate_spike: 0, cost_anomaly: 0, new_target: 0, off_hours: 0, deny_burst: 0, prompt_size_anomaly: 0 };
const request = (at: number, more: Partial<RiskRequest> = {}): RiskRequest => ({
  at,
  target: 'a',
  promptTokens: 500,
  costMicros: 1000,
  ...more,
});

function learn(profile: RiskProfile, asked: RiskRequest): void {
  settle(profile, asked, { at: asked.at, outcome: 'let_through', costMicros: asked.costMicros }, arrive(profile, asked.at));
}

function learnDenial(profile: RiskProfile, at: number): void {
  settle(profile, request(at), { at, outcome: 'refused', costMicros: 0 }, arrive(profile, at));
}

/** Office hours of three weekdays, a request in five minutes. */
function office(): { profile: RiskProfile; at: number } {
  const profile = newProfile(START, 7);
  let at = START;
  for (let day = 0; day < 3; day += 1)
    for (let step = 0; step < 96; step += 1) {
      at = START + day * 86_400_000 + step * 5 * MINUTE;
      learn(profile, request(at, { promptTokens: 400 + (step % 7) * 50, costMicros: 800 + (step % 5) * 100 }));
    }
  return { profile, at };
}

function scored(profile: RiskProfile, asked: RiskRequest, settings = SETTINGS) {
  age(profile, asked.at);
  return riskScore(profile, asked, settings);
}

t.test('each signal fires for what it is there for, alone, and ordinary traffic makes none', async (t) => {
  const cases: Readonly<Record<RiskSignal, (profile: RiskProfile, at: number) => RiskRequest>> = {
    rate_spike: (profile, at) => {
      for (let n = 0; n < 200; n += 1) learn(profile, request(at));
      return request(at);
    },
    cost_anomaly: (_profile, at) => request(at, { costMicros: 1e6 }),
    prompt_size_anomaly: (_profile, at) => request(at, { promptTokens: 1e6 }),
    new_target: (_profile, at) => request(at, { target: 'b' }),
    off_hours: (_profile, at) => request(at + 10 * 3_600_000),
    deny_burst: (profile, at) => {
      for (let n = 0; n < 7; n += 1) learnDenial(profile, at);
      return request(at);
    },
  };
  for (const signal of RISK_SIGNALS) {
    const { profile, at } = office();
    t.same(scored(profile, request(at + MINUTE)), { score: 0, signals: [] }, 'ordinary');
    const { score, signals } = scored(profile, cases[signal](profile, at + MINUTE));
    t.same(signals, [signal]);
    t.ok(score > 0 && score <= SETTINGS.weights[signal], `${signal} ${score}`);
    const other = office();
    const without = { ...SETTINGS, weights: { ...SETTINGS.weights, [signal]: 0 } };
    t.same(scored(other.profile, cases[signal](other.profile, other.at + MINUTE), without).signals, [], 'a weight of 0 switches it off');
  }
});

t.test('nothing fires before there is a history', async (t) => {
  const profile = newProfile(START, 7);
  for (let n = 0; n < 49; n += 1) learn(profile, request(START));
  t.same(scored(profile, request(START, { target: 'b', costMicros: 1e12 })), { score: 0, signals: [] });
});

t.test('whatever comes, the score is from 0 to 1, and the profile holds numbers of a fixed size', async (t) => {
  const { profile, at } = office();
  const odd = [Number.NaN, Number.POSITIVE_INFINITY, Number.MAX_VALUE, -1, 0];
  for (const amount of odd)
    for (const moved of [-1e12, 0, 1e12]) {
      const asked = request(at + moved, { promptTokens: amount, costMicros: amount, target: `t${amount}` });
      const { score } = scored(profile, asked);
      t.ok(score >= 0 && score <= 1);
      learn(profile, asked);
    }
  for (let n = 0; n < 1000; n += 1) learn(profile, request(at, { target: `x${n}` }));
  t.ok(JSON.stringify(profile).length < 3000, `${JSON.stringify(profile).length}`);
  t.notMatch(JSON.stringify(profile), /null/);
});

t.test('the more unusual, the higher, of every signal', async (t) => {
  const more: Readonly<Record<RiskSignal, (profile: RiskProfile, at: number, much: number) => RiskRequest>> = {
    rate_spike: (profile, at, much) => {
      for (let n = 0; n < 40 * much; n += 1) learn(profile, request(at));
      return request(at);
    },
    cost_anomaly: (_profile, at, much) => request(at, { costMicros: 1e5 * 10 ** much }),
    prompt_size_anomaly: (_profile, at, much) => request(at, { promptTokens: 1e4 * 10 ** much }),
    new_target: (profile, at, much) => {
      // Whoever goes to many new targets is at one once more.
      for (let n = 0; n < 12 / much; n += 1) learn(profile, request(at, { target: `n${n}` }));
      for (let n = 0; n < 60; n += 1) learn(profile, request(at));
      return request(at, { target: 'b' });
    },
    off_hours: (_profile, at, much) => request(at + (much === 1 ? 0 : 10) * 3_600_000),
    deny_burst: (profile, at, much) => {
      for (let n = 0; n < 7 * much; n += 1) learnDenial(profile, at);
      return request(at);
    },
  };
  const settings = { ...SETTINGS, thresholds: { ...SETTINGS.thresholds, new_target: 2 } };
  for (const signal of RISK_SIGNALS) {
    const alone = { ...settings, weights: { ...NONE, [signal]: 0.9 } };
    const scores = [1, 2, 4].map((much) => {
      const { profile, at } = office();
      return scored(profile, more[signal](profile, at + MINUTE, much), alone).score;
    });
    t.ok(
      scores.every((score, at) => at === 0 || score >= (scores[at - 1] ?? 0)) && (scores[2] ?? 0) > (scores[0] ?? 1),
      `${signal} ${scores.join(' ')}`,
    );
  }
});

t.test('what is refused is not learnt as usual, and what is far off moves a baseline little', async (t) => {
  const { profile, at } = office();
  const huge = request(at + MINUTE, { costMicros: 1e6, target: 'b' });
  const before = scored(profile, huge).signals;
  t.same(before, ['cost_anomaly', 'new_target']);
  for (let n = 0; n < 4; n += 1) settle(profile, huge, { at: huge.at, outcome: 'refused', costMicros: 0 }, arrive(profile, huge.at));
  t.same(scored(profile, huge).signals, before, 'however often it is tried');
  learn(profile, huge);
  t.ok(scored(profile, huge).signals.includes('cost_anomaly'), 'once is not a habit');
});

t.test('a burst in one hour does not make the other hours rare, and what is done in one hour may run into the next', async (t) => {
  const { profile, at } = office();
  for (let n = 0; n < 2000; n += 1) learn(profile, request(at + n));
  const tomorrow = at - 7 * 3_600_000 + 86_400_000;
  t.notOk(scored(profile, request(tomorrow)).signals.includes('off_hours'), 'an hour of the morning');
  t.notOk(scored(profile, request(at + 3_600_000)).signals.includes('off_hours'), 'the hour behind the last');
  t.ok(scored(profile, request(at + 10 * 3_600_000)).signals.includes('off_hours'));
});

t.test('a clock that goes back a little is waited for; after a leap forward that was set right the profile goes on', async (t) => {
  const { profile, at } = office();
  const before = JSON.stringify(profile);
  age(profile, at - 60_000);
  t.equal(JSON.stringify(profile), before);
  const year = 365 * 86_400_000;
  learn(profile, request(at + year));
  age(profile, at + MINUTE);
  for (let day = 1; day <= 3; day += 1)
    for (let step = 0; step < 96; step += 1) learn(profile, request(at + day * 86_400_000 - step * 5 * MINUTE));
  t.same(scored(profile, request(at + 3 * 86_400_000)).signals, []);
});

t.test('a target is known by 53 bits that nobody can choose', async (t) => {
  const hashes = new Set<number>();
  for (let n = 0; n < 100_000; n += 1) hashes.add(targetHash(`host-${n}.example.com ai.infer`, 7));
  t.equal(hashes.size, 100_000);
  t.not(targetHash('a', 7), targetHash('a', 8));
  t.ok([...hashes].every(Number.isSafeInteger));
});
