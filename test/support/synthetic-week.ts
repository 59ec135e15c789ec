// Five weeks of made-up traffic of callers of six kinds, from a seed. The last week has labelled anomalies; what comes
// before is there to be learnt from.

import { RISK_SIGNALS, type RiskSignal } from '../../src/base/model/risk-alert.ts';
import type { RiskOutcome, RiskRequest } from '../../src/decide/risk/risk-profile.ts';
import { RiskReplay } from '../../src/decide/risk/risk-replay.ts';
import type { RiskSettings } from '../../src/decide/risk/risk-score.ts';
import { Mulberry32 } from './mulberry32.ts';

/** Monday, 00:00 UTC. */
export const WEEKS_BEGIN = Date.parse('2026-09-28T00:00:00Z');
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Four weeks are ordinary. */
export const LAST_WEEK = WEEKS_BEGIN + 28 * DAY;
const CALLERS_OF_A_KIND = 4;

export interface SyntheticRequest extends RiskRequest {
  readonly caller: string;
  readonly outcome: Omit<RiskOutcome, 'at'>;
  /** The anomaly that it belongs to. */
  readonly incident: Incident | undefined;
}

export interface Incident {
  readonly id: string;
  /** What a person would call unusual about it. */
  readonly signals: readonly RiskSignal[];
}

/** How a kind of callers behaves when nothing is wrong. */
interface Kind {
  readonly name: string;
  /** Requests that begin in an hour, on average. @param hour 0 to 23 */
  perHour(hour: number, weekend: boolean): number;
  /** Requests that one such beginning brings, and milliseconds between two of them. */
  readonly run: readonly [least: number, most: number, apartMs: number];
  /** Tokens: median and deviation of the logarithm. */
  readonly prompt: readonly [median: number, deviation: number];
  readonly targets: readonly string[];
  readonly denied: number;
}

const OPENAI = 'api.openai.com ai.infer';
const CLAUDE = 'api.anthropic.com ai.infer';
const EMBED = 'api.openai.com ai.embed';
const office = (hour: number): number => (hour < 7 || hour > 18 ? 0 : hour === 12 ? 0.4 : hour < 9 ? 0.5 : 1);

const KINDS: readonly Kind[] = [
  {
    name: 'person',
    perHour: (hour, weekend) => (weekend ? 0 : 9 * office(hour)),
    run: [1, 3, 20_000],
    prompt: [600, 0.9],
    targets: [OPENAI, CLAUDE],
    denied: 0.01,
  },
  {
    name: 'app by day',
    perHour: (hour, weekend) => (weekend ? 4 : 4 + 30 * office(hour)),
    run: [1, 1, 0],
    prompt: [1500, 0.5],
    targets: [OPENAI],
    denied: 0.002,
  },
  { name: 'app day and night', perHour: () => 25, run: [1, 1, 0], prompt: [900, 1.2], targets: [OPENAI, CLAUDE, EMBED], denied: 0.05 },
  { name: 'nightly job', perHour: (hour) => (hour === 2 ? 1 : 0), run: [150, 250, 3000], prompt: [3000, 0.3], targets: [EMBED], denied: 0 },
  {
    name: 'agent',
    perHour: (hour, weekend) => (weekend ? 0.1 : 1.2 * office(hour) + 0.1),
    run: [5, 60, 6000],
    prompt: [8000, 1],
    targets: [CLAUDE],
    denied: 0.01,
  },
  {
    name: 'rare guest',
    perHour: (hour, weekend) => (weekend ? 0 : 0.5 * office(hour)),
    run: [1, 2, 40_000],
    prompt: [400, 0.7],
    targets: [OPENAI],
    denied: 0.02,
  },
];

class Dice extends Mulberry32 {
  between(least: number, most: number): number {
    return least + this.next() * (most - least);
  }

  /** Log-normal. */
  amount([median, deviation]: readonly [number, number]): number {
    const normal = Math.sqrt(-2 * Math.log(1 - this.next())) * Math.cos(2 * Math.PI * this.next());
    return Math.max(1, Math.round(median * Math.exp(deviation * normal)));
  }

  /** Poisson: how many, when it is so many on average. */
  count(mean: number): number {
    let many = 0;
    for (let left = this.next(); left > Math.exp(-mean); left *= this.next()) many++;
    return many;
  }
}

/** All requests, in order of time. */
export function syntheticTraffic(seed: number): readonly SyntheticRequest[] {
  const dice = new Dice(seed);
  const all: SyntheticRequest[] = [];
  for (const kind of KINDS)
    for (let n = 1; n <= CALLERS_OF_A_KIND; n++) {
      const caller = `${kind.name} ${n}`;
      ordinary(kind, caller, dice, all);
      anomalies(kind, caller, dice, all);
    }
  return all.sort((a, b) => a.at - b.at);
}

function ordinary(kind: Kind, caller: string, dice: Dice, all: SyntheticRequest[]): void {
  // No two are alike.
  const pace = dice.between(0.6, 1.6);
  for (let at = WEEKS_BEGIN; at < LAST_WEEK + 7 * DAY; at += HOUR) {
    const day = Math.floor((at - WEEKS_BEGIN) / DAY);
    const hour = Math.floor((at - WEEKS_BEGIN) / HOUR) % 24;
    const begins = kind.name === 'nightly job' ? kind.perHour(hour, false) : dice.count(pace * kind.perHour(hour, day % 7 > 4));
    for (let run = 0; run < begins; run++) {
      const [least, most, apart] = kind.run;
      let moment = at + dice.next() * HOUR * (kind.name === 'nightly job' ? 0.3 : 1);
      for (let left = Math.round(dice.between(least, most)); left > 0; left--) {
        all.push(request(kind, caller, moment, dice));
        moment += apart * dice.between(0.5, 1.5);
      }
    }
  }
}

interface Odd {
  readonly target?: string;
  /** Times what is usual. */
  readonly prompt?: number;
  readonly cost?: number;
  readonly denied?: number;
  readonly incident?: Incident;
}

function request(kind: Kind, caller: string, at: number, dice: Dice, odd: Odd = {}): SyntheticRequest {
  const usual = kind.targets[dice.next() < 0.8 ? 0 : Math.floor(dice.next() * kind.targets.length)] ?? OPENAI;
  const promptTokens = Math.round(dice.amount(kind.prompt) * (odd.prompt ?? 1));
  // Three dollars for a million tokens, and an answer.
  const costMicros = Math.round((3 * promptTokens + 15 * dice.amount([300, 0.6])) * (odd.cost ?? 1));
  const refused = dice.next() < (odd.denied ?? kind.denied);
  const outcome = { outcome: refused ? 'refused' : 'let_through', costMicros: refused ? 0 : costMicros } as const;
  return { caller, at: Math.round(at), target: odd.target ?? usual, promptTokens, costMicros, outcome, incident: odd.incident };
}

/** What happens to a caller in the last week; hours are those of its usual work. */
function anomalies(kind: Kind, caller: string, dice: Dice, all: SyntheticRequest[]): void {
  const usualHour = kind.name === 'nightly job' ? 2 : 10;
  const onDay = (day: number, hour = usualHour): number => LAST_WEEK + day * DAY + hour * HOUR + dice.between(20, 40) * MINUTE;
  const busiest = Math.max(10, kind.run[1], ...[2, 10].map((hour) => kind.perHour(hour, false) / 6));
  const happen = (name: string, signals: readonly RiskSignal[], from: number, many: number, apart: number, odd: Odd = {}): void => {
    const incident = { id: `${caller}: ${name}`, signals };
    for (let n = 0; n < many; n++) all.push(request(kind, caller, from + n * apart * dice.between(0.8, 1.2), dice, { ...odd, incident }));
  };
  // Somebody has the key of a caller: many requests in ten minutes.
  happen('loop', ['rate_spike'], onDay(0), Math.round(busiest * 15), (10 * MINUTE) / (busiest * 15));
  happen('dear model', ['cost_anomaly'], onDay(1), 5, 30_000, { cost: 100 });
  // A whole repository in a prompt costs accordingly.
  happen('large prompt', ['prompt_size_anomaly', 'cost_anomaly'], onDay(2), 3, 60_000, { prompt: 100 });
  happen('other provider', ['new_target'], onDay(3), 5, 30_000, { target: 'generativelanguage.googleapis.com ai.infer' });
  happen('probing', ['deny_burst'], onDay(4), 25, 8000, { denied: 1 });
  // Only who keeps hours can be outside of them.
  const keepsHours = kind.perHour(5, false) === 0;
  if (keepsHours) happen('odd hour', ['off_hours'], onDay(3, 5), 6, 60_000);
  if (keepsHours) happen('on Sunday', ['off_hours'], onDay(6, 15), 6, 60_000);
  // Everything at once: exfiltration at night.
  const theft: RiskSignal[] = ['rate_spike', 'prompt_size_anomaly', 'cost_anomaly', 'new_target'];
  if (keepsHours) theft.push('off_hours');
  happen('theft', theft, onDay(5, 23), Math.round(busiest * 15), (10 * MINUTE) / (busiest * 15), {
    target: 'files.openai.com ai.file',
    prompt: 60,
  });
}

/**
 * How often a signal was right. Alarms are counted by caller and five minutes: those in an incident that has the signal
 * are right, those without an incident wrong. What else fires in an incident, or in the ten minutes behind it, is
 * neither.
 */
export interface SignalReport {
  incidents: number;
  found: number;
  alarms: number;
  right: number;
}

export interface WeekReport {
  readonly signals: Readonly<Record<RiskSignal, SignalReport>>;
  /** Scores of the last week's ordinary requests, ascending. */
  readonly ordinary: readonly number[];
  /** The highest score of each incident. */
  readonly incidents: ReadonlyMap<string, number>;
}

/** What the scorer says of the last week. */
export function judgeWeek(traffic: readonly SyntheticRequest[], settings: RiskSettings): WeekReport {
  const replay = new RiskReplay(settings, 1);
  const ordinary: number[] = [];
  const incidents = new Map<string, number>();
  const oddUntil = new Map<string, number>();
  const tally = new Tally();
  for (const asked of traffic) {
    const { caller, at, outcome } = asked;
    const { score, signals } = replay.add({ caller, id: '', request: asked, outcome: { ...outcome, at } });
    if (at < LAST_WEEK) continue;
    if (asked.incident) oddUntil.set(caller, at + 10 * MINUTE);
    else if (at < (oddUntil.get(caller) ?? 0)) continue;
    tally.add(asked, signals);
    if (asked.incident) incidents.set(asked.incident.id, Math.max(score, incidents.get(asked.incident.id) ?? 0));
    else ordinary.push(score);
  }
  return { signals: tally.report(), ordinary: ordinary.sort((a, b) => a - b), incidents };
}

class Tally {
  readonly #expected = new Map<string, Set<string>>(RISK_SIGNALS.map((signal) => [signal, new Set()]));
  readonly #found = new Map<string, Set<string>>(RISK_SIGNALS.map((signal) => [signal, new Set()]));
  /** Alarms by signal, and whether an incident explains them. */
  readonly #alarms = new Map<string, Map<string, boolean>>(RISK_SIGNALS.map((signal) => [signal, new Map()]));

  add({ caller, at, incident }: SyntheticRequest, fired: readonly RiskSignal[]): void {
    for (const signal of incident?.signals ?? []) this.#expected.get(signal)?.add(incident?.id ?? '');
    for (const signal of fired) {
      const isRight = incident?.signals.includes(signal) === true;
      if (incident && !isRight) continue;
      const alarm = `${caller} ${Math.floor(at / (5 * MINUTE))}`;
      const alarms = this.#alarms.get(signal);
      alarms?.set(alarm, isRight || alarms.get(alarm) === true);
      if (isRight) this.#found.get(signal)?.add(incident.id);
    }
  }

  report(): Record<RiskSignal, SignalReport> {
    const of = (signal: RiskSignal): SignalReport => {
      const alarms = [...(this.#alarms.get(signal) ?? [])];
      const right = alarms.filter(([, isRight]) => isRight).length;
      return { incidents: this.#expected.get(signal)?.size ?? 0, found: this.#found.get(signal)?.size ?? 0, alarms: alarms.length, right };
    };
    return Object.fromEntries(RISK_SIGNALS.map((signal) => [signal, of(signal)])) as Record<RiskSignal, SignalReport>;
  }
}
