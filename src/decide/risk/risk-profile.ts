/** What is known of one caller, of fixed size; JSON data. Weights decay with time: what is older counts less. */
export interface RiskProfile {
  /** Mixed into the hashes of targets, so that nobody can choose a target that passes for a known one. */
  readonly seed: number;
  /** Requests that have arrived, not decayed. */
  samples: number;
  /** Of the last event, epoch milliseconds. */
  lastAt: number;
  /** Decayed numbers of requests and of refusals over minutes. */
  recent: number;
  recentDenied: number;
  /** Decayed micro-dollars over minutes. */
  recentCost: number;
  /** Part of the requests that were refused, exponentially weighted by requests. */
  denied: number;
  /**
   * The window of five minutes that is running, and the highest `recent` at the arrival of a request of it that was let
   * through.
   */
  window: number;
  peak: number;
  /** Of the peaks of windows. */
  readonly rate: Spread;
  readonly cost: Spread;
  readonly prompt: Spread;
  /** Decayed number of days with a request in that hour in UTC: 24 of weekdays, 24 of weekends. */
  readonly hours: number[];
  /** The last hour that was counted there, in hours since the epoch. */
  hour: number;
  /** Decayed number of days that have been lived through: weekdays, days of weekends. */
  readonly days: number[];
  /** Part of the requests that went to a new target, exponentially weighted by requests. */
  novelty: number;
  /** Hashes of targets, the most recent last. */
  readonly targets: number[];
}

/** Exponentially weighted mean and variance of logarithms, because amounts vary by factors. */
export interface Spread {
  weight: number;
  mean: number;
  variance: number;
}

/** One request as it arrives. Of amounts that are not above 0 nothing is known. */
export interface RiskRequest {
  /** Epoch milliseconds. */
  readonly at: number;
  readonly target: string;
  readonly promptTokens: number;
  /** Estimated, micro-dollars. */
  readonly costMicros: number;
}

/** What became of it. */
export interface RiskOutcome {
  /** Epoch milliseconds. */
  readonly at: number;
  /** `waits`: neither, so far. */
  readonly outcome: 'let_through' | 'refused' | 'waits';
  /** Charged, micro-dollars. */
  readonly costMicros: number;
}

export const RECENT_MS = 300_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
/** What happened four weeks ago counts a third in the hours of a caller. */
const HOURS_MS = 28 * DAY_MS;
/** Who was away for longer was away for this long: neither a holiday nor a leap of the clock makes a caller unknown. */
const MOST_DAYS_AWAY = 7;
const MAX_TARGETS = 32;
/** A new value moves a mean by at least this part. */
const LEARNING = 0.02;
/** Refusals are rare, and a burst of them is not to become usual while it lasts. */
const DENIED_LEARNING = 0.005;
/** Values from which on a spread is believed so far that a single one may not move it at will. */
const SETTLED = 20;
/** Standard deviations: what is further off is learnt as if it were this far. */
const FARTHEST = 3;
/** Of one amount, so that sums of them stay numbers. */
const LARGEST = 1e15;
/**
 * Smallest deviation of a logarithm that is taken for usual, so that callers that never vary are not alarmed by a
 * trifle.
 */
const MIN_DEVIATION = 0.25;

/** @param seed any integer of 32 bits, random */
export function newProfile(at: number, seed: number): RiskProfile {
  const days = [0, 0];
  days[dayKind(dayOf(at))] = 1;
  return {
    seed,
    samples: 0,
    lastAt: at,
    recent: 0,
    recentDenied: 0,
    recentCost: 0,
    denied: 0,
    window: windowOf(at),
    peak: 0,
    rate: newSpread(),
    cost: newSpread(),
    prompt: newSpread(),
    hours: new Array<number>(48).fill(0),
    hour: 0,
    days,
    novelty: 0,
    targets: [],
  };
}

/**
 * Lets time pass. A clock that went back a little is waited for. One that went back far counts from there on, and
 * nothing is unlearnt: a leap forward that was set right has cost a week of fading, and no more.
 */
export function age(profile: RiskProfile, at: number): void {
  const passed = at - profile.lastAt;
  if (!(passed > 0 || passed < -RECENT_MS) || !Number.isFinite(passed)) return;
  if (passed > 0) decay(profile, passed, at);
  profile.lastAt = at;
  const window = windowOf(at);
  if (window === profile.window) return;
  if (profile.peak > 0) add(profile.rate, magnitude(profile.peak));
  profile.peak = 0;
  profile.window = window;
}

function decay(profile: RiskProfile, passed: number, at: number): void {
  const recent = Math.exp(-passed / RECENT_MS);
  profile.recent *= recent;
  profile.recentDenied *= recent;
  profile.recentCost *= recent;
  const today = dayOf(at);
  const before = dayOf(profile.lastAt);
  if (today === before) return;
  // Once a day: nothing of it is seen sooner.
  const away = Math.min(today - before, MOST_DAYS_AWAY);
  const usual = Math.exp((-away * DAY_MS) / HOURS_MS);
  const { hours, days } = profile;
  for (let hour = 0; hour < hours.length; hour += 1) hours[hour] = (hours[hour] ?? 0) * usual;
  for (let kind = 0; kind < days.length; kind += 1) days[kind] = (days[kind] ?? 0) * usual;
  for (let day = today - away + 1; day <= today; day += 1) days[dayKind(day)] = (days[dayKind(day)] ?? 0) + 1;
}

/**
 * A request has arrived, after it was scored. It counts for the rate, and for nothing else yet.
 * @returns the decayed number of requests by then, for {@link settle}
 */
export function arrive(profile: RiskProfile, at: number): number {
  age(profile, at);
  profile.samples += 1;
  profile.recent += 1;
  return profile.recent;
}

/**
 * Its record is stored. What is usual is learnt from what was let through alone, so that nobody makes something usual
 * by trying it until it passes.
 * @param rate what {@link arrive} returned
 */
export function settle(profile: RiskProfile, request: RiskRequest, { at, outcome, costMicros }: RiskOutcome, rate: number): void {
  age(profile, at);
  profile.recentCost += amountOf(costMicros);
  if (outcome === 'waits') return;
  profile.denied += partOf(profile, DENIED_LEARNING) * ((outcome === 'refused' ? 1 : 0) - profile.denied);
  if (outcome === 'refused') {
    profile.recentDenied += 1;
    return;
  }
  profile.peak = Math.max(profile.peak, rate);
  learnHour(profile, request.at);
  if (request.costMicros > 0) add(profile.cost, magnitude(request.costMicros));
  if (request.promptTokens > 0) add(profile.prompt, magnitude(request.promptTokens));
  learnTarget(profile, targetHash(request.target, profile.seed), partOf(profile, LEARNING));
}

/** An hour is in use or is not: a thousand requests in one of them do not make all others rare. */
function learnHour(profile: RiskProfile, at: number): void {
  const now = Math.floor(at / HOUR_MS);
  if (now === profile.hour) return;
  profile.hour = now;
  const hour = hourOf(at);
  profile.hours[hour] = (profile.hours[hour] ?? 0) + 1;
}

function learnTarget(profile: RiskProfile, hash: number, part: number): void {
  const { targets } = profile;
  const known = targets.indexOf(hash);
  profile.novelty += part * ((known === -1 ? 1 : 0) - profile.novelty);
  if (known === targets.length - 1 && known !== -1) return;
  if (known !== -1) targets.splice(known, 1);
  else if (targets.length === MAX_TARGETS) targets.shift();
  targets.push(hash);
}

/** What counts as one target: a host alone would hide that somebody who only ever asked now sends files. */
export function riskTarget(host: string, actionType: string): string {
  return `${host} ${actionType}`;
}

/** Standard deviations by which the logarithm of an amount is above what is usual; below 0 under it. */
export function deviations({ mean, variance }: Spread, amount: number): number {
  return (magnitude(amount) - mean) / deviationOf(variance);
}

/** 0 to 23 on weekdays, 24 to 47 on weekends, UTC. */
export function hourOf(at: number): number {
  const day = dayOf(at);
  return 24 * dayKind(day) + Math.floor((at - day * DAY_MS) / HOUR_MS);
}

/** 53 bits of a target, which is never kept itself: two lanes of multiply and xor. */
export function targetHash(text: string, seed: number): number {
  let high = 0xdeadbeef ^ seed;
  let low = 0x41c6ce57 ^ seed;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    high = Math.imul(high ^ code, 2_654_435_761);
    low = Math.imul(low ^ code, 1_597_334_677);
  }
  high = Math.imul(high ^ (high >>> 16), 2_246_822_507) ^ Math.imul(low ^ (low >>> 13), 3_266_489_909);
  low = Math.imul(low ^ (low >>> 16), 2_246_822_507) ^ Math.imul(high ^ (high >>> 13), 3_266_489_909);
  return 4_294_967_296 * (2_097_151 & low) + (high >>> 0);
}

/** Logarithm of an amount; 0 for what is none. */
function magnitude(amount: number): number {
  return Math.log1p(amountOf(amount));
}

function amountOf(amount: number): number {
  return amount > 0 ? Math.min(amount, LARGEST) : 0;
}

function partOf({ samples }: RiskProfile, least: number): number {
  return Math.max(least, 1 / Math.max(samples, 1));
}

function newSpread(): Spread {
  return { weight: 0, mean: 0, variance: 0 };
}

function add(spread: Spread, value: number): void {
  spread.weight += 1;
  const part = Math.max(LEARNING, 1 / spread.weight);
  const farthest = spread.weight > SETTLED ? FARTHEST * deviationOf(spread.variance) : Number.POSITIVE_INFINITY;
  const off = Math.min(Math.max(value - spread.mean, -farthest), farthest);
  spread.mean += part * off;
  spread.variance = (1 - part) * (spread.variance + part * off * off);
}

function deviationOf(variance: number): number {
  return Math.max(Math.sqrt(variance), MIN_DEVIATION);
}

function windowOf(at: number): number {
  return Math.floor(at / RECENT_MS);
}

function dayOf(at: number): number {
  return Math.floor(at / DAY_MS);
}

/** 0: a weekday, 1: a day of a weekend. */
function dayKind(day: number): 0 | 1 {
  const weekday = (((day + 4) % 7) + 7) % 7;
  return weekday === 0 || weekday === 6 ? 1 : 0;
}
