import { RISK_SIGNALS, type Risk, type RiskSignal } from '../../base/model/risk-alert.ts';
import { age, arrive, deviations, hourOf, RECENT_MS, type RiskProfile, type RiskRequest, type Spread, targetHash } from './risk-profile.ts';

export interface RiskSettings {
  /** Requests that must have been seen of a caller before any signal fires. */
  readonly minSamples: number;
  /** 0 to 1; 0 switches a signal off. */
  readonly weights: Readonly<Record<RiskSignal, number>>;
  /** How unusual something must be to count, in the unit of the signal (`howUnusual`); above 0. */
  readonly thresholds: Readonly<Record<RiskSignal, number>>;
}

/** Days on which every hour is taken to have been in use. */
const PRIOR = 0.5;
/** What is done in one hour is half as usual in those beside it. */
const BESIDE = 0.5;
/** Part of the requests that may be refused of anybody. */
const HARMLESS_DENIED = 0.02;
/** Days of its kind, and values, that a caller must have lived through before an hour, or an amount, can be unusual. */
const MIN_DAYS = 2.5;
const MIN_VALUES = 12;
/** Requests within minutes that are no spike, whatever is usual. */
const HARMLESS_RATE = 10;
/** Of requests that go to a new target; a caller that never does is taken to do so this often. */
const LEAST_NOVELTY = 0.001;
/**
 * Ten thousandths by which a score must be higher than what people know, before they are told again at once (decision
 * 9.3).
 */
const WORTH_A_NOTICE = 1_000;
const NO_SIGNALS: readonly RiskSignal[] = [];
/** Of a caller of which too little is known, or of a request with nothing unusual. */
export const NO_RISK: Risk = { score: 0, signals: NO_SIGNALS };

/**
 * Measures how unusual a request is, in the unit of its signal: 0 or less for not at all. The profile has been aged to
 * the time of the request, and has not learnt it.
 */
const howUnusual: Readonly<Record<RiskSignal, (profile: RiskProfile, request: RiskRequest) => number>> = {
  /** Standard deviations above the mean, of logarithms of the number within five minutes. */
  rate_spike: ({ rate, recent }) => (recent + 1 < HARMLESS_RATE ? 0 : above(rate, recent + 1)),
  /** Standard deviations above the mean, of logarithms. */
  cost_anomaly: ({ cost }, { costMicros }) => above(cost, costMicros),
  prompt_size_anomaly: ({ prompt }, { promptTokens }) => above(prompt, promptTokens),
  /** Requests in which a new target is usual once; 0 where this one is known. */
  new_target: ({ seed, novelty, targets }, { target }) => {
    if (targets.length === 0 || targets.includes(targetHash(target, seed))) return 0;
    return 1 / Math.max(novelty, LEAST_NOVELTY);
  },
  /**
   * How many times rarer it is that this hour of such a day is in use than the hours in which the caller is usually
   * there.
   */
  off_hours: (profile, { at }) => {
    const hour = hourOf(at);
    return lived(profile, hour) < MIN_DAYS ? 0 : usualUse(profile) / useOf(profile, hour);
  },
  /** Refusals of the last minutes beyond those that are usual for that many requests, and what chance makes of them. */
  deny_burst: ({ recentDenied, denied, recent }) => {
    const expected = Math.max(denied, HARMLESS_DENIED) * recent;
    return recentDenied - expected - 2 * Math.sqrt(expected);
  },
};

/** score = 1 − Π(1 − wᵢ·sᵢ); sᵢ is 0 up to its threshold and 1 − (threshold / measure)² beyond it (decision 9.3). */
export function riskScore(profile: RiskProfile, request: RiskRequest, { minSamples, weights, thresholds }: RiskSettings): Risk {
  if (profile.samples < minSamples) return NO_RISK;
  let signals: RiskSignal[] | undefined;
  let rest = 1;
  for (const signal of RISK_SIGNALS) {
    const weight = weights[signal];
    if (!(weight > 0)) continue;
    const measure = howUnusual[signal](profile, request);
    const threshold = thresholds[signal];
    // Written so that what is no number does not fire.
    if (!(measure > threshold)) continue;
    signals ??= [];
    signals.push(signal);
    rest *= 1 - Math.min(weight, 1) * (1 - (threshold / measure) ** 2);
  }
  if (signals === undefined) return NO_RISK;
  return { score: Math.round(Math.min(Math.max(1 - rest, 0), 1) * 10_000) / 10_000, signals };
}

/**
 * Scores a request as it arrives, and counts its arrival.
 * @returns the score, and the rate that {@link settle} is told
 */
export function scoreArrival(
  profile: RiskProfile,
  request: RiskRequest,
  settings: RiskSettings,
): { readonly risk: Risk; readonly rate: number } {
  age(profile, request.at);
  const risk = riskScore(profile, request, settings);
  return { risk, rate: arrive(profile, request.at) };
}

/** What people were last told of a caller. */
export interface RiskNotice {
  /** Epoch milliseconds. */
  readonly at: number;
  /** The highest score that they were told while it goes on. */
  readonly score: number;
  /** All signals that they were told while it goes on. */
  readonly signals: readonly RiskSignal[];
}

/**
 * What people are told of a call whose score has reached the threshold: of a caller once in five minutes, and at once
 * when the score is higher by 0.1 than what they know, or another signal has joined. A spike of a thousand requests is
 * one notice.
 * @param last undefined: nothing yet
 * @param at epoch milliseconds
 * @returns what they know then; undefined where there is nothing to tell
 */
export function noticeOf(last: RiskNotice | undefined, { score, signals }: Risk, at: number): RiskNotice | undefined {
  if (last === undefined || Math.abs(at - last.at) >= RECENT_MS) return { at, score, signals };
  const joined = signals.filter((signal) => !last.signals.includes(signal));
  // Scores have four decimals.
  if (joined.length === 0 && Math.round((score - last.score) * 10_000) < WORTH_A_NOTICE) return undefined;
  return { at, score: Math.max(score, last.score), signals: [...last.signals, ...joined] };
}

/** Days of that kind. */
function lived({ days }: RiskProfile, hour: number): number {
  return days[hour < 24 ? 0 : 1] ?? 0;
}

/** Part of the days on which the hour, or nearly one beside it, is in use. */
function useOf(profile: RiskProfile, hour: number): number {
  const { hours } = profile;
  const kind = hour < 24 ? 0 : 24;
  const before = hours[kind + ((hour - kind + 23) % 24)] ?? 0;
  const after = hours[kind + ((hour - kind + 1) % 24)] ?? 0;
  const used = Math.max(hours[hour] ?? 0, BESIDE * before, BESIDE * after);
  return (used + PRIOR) / (lived(profile, hour) + 2 * PRIOR);
}

/** The same of an hour in which the caller is there: the mean over its uses. */
function usualUse(profile: RiskProfile): number {
  let uses = 0;
  let sum = 0;
  for (let hour = 0; hour < profile.hours.length; hour += 1) {
    const used = profile.hours[hour] ?? 0;
    if (used === 0) continue;
    uses += used;
    sum += used * (used / Math.max(lived(profile, hour), used));
  }
  return uses === 0 ? 0 : sum / uses;
}

function above(spread: Spread, amount: number): number {
  return spread.weight < MIN_VALUES ? 0 : deviations(spread, amount);
}
