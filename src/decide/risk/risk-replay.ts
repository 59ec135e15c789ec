import { RISK_SIGNALS, type Risk, type RiskSignal } from '../../base/model/risk-alert.ts';
import { newProfile, RECENT_MS, type RiskOutcome, type RiskProfile, type RiskRequest, settle } from './risk-profile.ts';
import { noticeOf, type RiskNotice, type RiskSettings, scoreArrival } from './risk-score.ts';

/** A call of which it is known what became of it. */
export interface ReplayedCall {
  /** Whoever counts as one caller. */
  readonly caller: string;
  /** Named when it is one of the most unusual. */
  readonly id: string;
  readonly request: RiskRequest;
  readonly outcome: RiskOutcome;
}

/** One of the most unusual calls. */
export interface RiskyCall extends Risk {
  readonly id: string;
  readonly caller: string;
  /** Epoch milliseconds. */
  readonly at: number;
}

export interface RiskSummary {
  readonly calls: number;
  readonly callers: number;
  /** Calls in which each signal fired. */
  readonly fired: Readonly<Record<RiskSignal, number>>;
  /** Calls by tenths of the score; those of score 0 are not among them. */
  readonly tenths: readonly number[];
  /** Calls at or above the threshold. */
  readonly above: number;
  /** Alerts that would have been raised: for one caller one in five minutes. */
  readonly alerts: number;
  /** The highest scores, one for each caller and five minutes. */
  readonly top: readonly RiskyCall[];
}

const TOP = 10;
const SEED = 0;

/**
 * Scores calls of the past, in the order in which they came, as the gateway would have with these settings (decision
 * 9.3).
 */
export class RiskReplay {
  readonly #settings: RiskSettings;
  readonly #alertAt: number;
  readonly #profiles = new Map<string, RiskProfile>();
  readonly #noticed = new Map<string, RiskNotice>();
  readonly #fired: Record<RiskSignal, number> = Object.fromEntries(RISK_SIGNALS.map((signal) => [signal, 0])) as Record<RiskSignal, number>;
  readonly #tenths = new Array<number>(10).fill(0);
  #calls = 0;
  #above = 0;
  #alerts = 0;
  readonly #top: RiskyCall[] = [];

  constructor(settings: RiskSettings, alertAt: number) {
    this.#settings = settings;
    this.#alertAt = alertAt;
  }

  /** @returns the score that the call would have had */
  add({ caller, id, request, outcome }: ReplayedCall): Risk {
    const profile = this.#profileOf(caller, request.at);
    const { risk, rate } = scoreArrival(profile, request, this.#settings);
    settle(profile, request, outcome, rate);
    this.#calls += 1;
    if (risk.signals.length > 0) this.#count({ ...risk, id, caller, at: request.at });
    return risk;
  }

  result(): RiskSummary {
    return {
      calls: this.#calls,
      callers: this.#profiles.size,
      fired: { ...this.#fired },
      tenths: [...this.#tenths],
      above: this.#above,
      alerts: this.#alerts,
      top: [...this.#top],
    };
  }

  #profileOf(caller: string, at: number): RiskProfile {
    let profile = this.#profiles.get(caller);
    if (profile === undefined) {
      profile = newProfile(at, SEED);
      this.#profiles.set(caller, profile);
    }
    return profile;
  }

  #count(call: RiskyCall): void {
    const { caller, at, score, signals } = call;
    for (const signal of signals) this.#fired[signal] += 1;
    const tenth = Math.min(Math.floor(score * 10), 9);
    this.#tenths[tenth] = (this.#tenths[tenth] ?? 0) + 1;
    this.#rank(call);
    if (score < this.#alertAt) return;
    this.#above += 1;
    const notice = noticeOf(this.#noticed.get(caller), call, at);
    if (notice === undefined) return;
    this.#noticed.set(caller, notice);
    this.#alerts += 1;
  }

  #rank(call: RiskyCall): void {
    const lowest = this.#top.at(-1);
    if (this.#top.length === TOP && lowest !== undefined && call.score <= lowest.score) return;
    const same = this.#top.findIndex(({ caller, at }) => caller === call.caller && Math.abs(at - call.at) < RECENT_MS);
    if (same !== -1) {
      if ((this.#top[same]?.score ?? 0) >= call.score) return;
      this.#top.splice(same, 1);
    }
    this.#top.push(call);
    this.#top.sort((a, b) => b.score - a.score || a.at - b.at);
    this.#top.length = Math.min(this.#top.length, TOP);
  }
}
