import type { Events } from '../../base/events/bus.ts';
import type { DurableName } from '../../base/events/destination.ts';
import type { Clock } from '../../base/lib/clock.ts';
import { type Maybe, when } from '../../base/lib/maybe.ts';
import { picoFromMicros, usdFromPico } from '../../base/lib/money.ts';
import { withDecimals } from '../../base/lib/text.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import type { Risk, RiskAlert } from '../../base/model/risk-alert.ts';
import { RECENT_MS, type RiskOutcome, type RiskProfile, type RiskRequest, settle } from '../../decide/risk/risk-profile.ts';
import { noticeOf, type RiskNotice, type RiskSettings, scoreArrival } from '../../decide/risk/risk-score.ts';
import type { Effect } from '../../storage/contract/store.ts';
import type { QuarantineCaller } from '../review/quarantines.ts';
import type { Outbox, Posted } from '../sending/outbox.ts';
import { outcomeOf } from './recorded-risk.ts';
import { type KnownCaller, RiskProfiles, type RiskProfilesOptions } from './risk-profiles.ts';

/** Requests, or dollars, of five minutes as those of one. */
const MINUTES = RECENT_MS / 60_000;
const EVENTS: readonly DurableName[] = ['riskAlert', 'riskNotice'];
const NONE: readonly Posted[] = [];
const NOTHING: readonly Effect[] = [];

export interface RiskOptions extends RiskProfilesOptions {
  readonly events: Events;
  readonly outbox: Pick<Outbox, 'wantsAny' | 'post'>;
  readonly settings: RiskSettings;
  /** Score from which an alert is raised (`GW_RISK_ALERT_THRESHOLD`). */
  readonly alertAt: number;
  /** `auto`: where a rule asks for it, or alerts have somewhere to go (`GW_RISK_ENABLED`). */
  readonly enabled: 'auto' | 'true' | 'false';
}

/** A request that was scored: its verbs are those of a settlement. */
export interface ScoredCall {
  readonly risk: Risk;
  readonly needsRecord: boolean;
  effects(record: ExecutionRecord): readonly Effect[];
  stored(): void;
  failed(): void;
  abandoned(): void;
  summed(record: ExecutionRecord): void;
}

/**
 * How unusual requests are for their callers (decision 9.3). A request counts for the rate when it arrives, and in all
 * else when its record is stored. What is known of callers is this node's own view.
 */
export class RiskService {
  readonly #options: RiskOptions;
  readonly #profiles: RiskProfiles;

  constructor(options: RiskOptions) {
    this.#options = options;
    this.#profiles = new RiskProfiles(options);
  }

  /** Whether requests are scored: always, never, or where the policy asks for it. */
  get scores(): boolean | 'where asked' {
    const { enabled, outbox } = this.#options;
    if (enabled === 'auto') return outbox.wantsAny(EVENTS) || 'where asked';
    return enabled === 'true';
  }

  /** Callers whose profiles are in memory. */
  get callers(): number {
    return this.#profiles.size;
  }

  /**
   * Scores a request, and raises the alert that it is worth: an event for every one whose score has reached the
   * threshold (specification, "SIEM export"), a notice for people when there is something to tell them (decision 9.3).
   * A promise when the caller has to be looked up.
   */
  score(caller: QuarantineCaller, recordId: string, request: RiskRequest): Maybe<ScoredCall> {
    return when(this.#profiles.of(caller), (known) => this.#score(known, caller, recordId, request));
  }

  /** Removes what is known of callers who were last heard of before `epochMs`. @returns how many */
  removeBefore(epochMs: number): Promise<number> {
    return this.#profiles.removeBefore(epochMs);
  }

  /** Stores what is not stored yet. */
  close(): Promise<void> {
    return this.#profiles.close();
  }

  #score(known: KnownCaller, caller: QuarantineCaller, recordId: string, request: RiskRequest): ScoredCall {
    const { settings, alertAt, events, outbox, clock } = this.#options;
    const { profile } = known;
    const { risk, rate } = scoreArrival(profile, request, settings);
    this.#profiles.changed(known);
    const alert = risk.score >= alertAt ? alertOf(profile, risk, caller, recordId) : undefined;
    const notice = alert && noticeOf(known.noticed, risk, request.at);
    if (alert) events.emit('riskAlert', alert);
    if (alert && notice) {
      known.noticed = notice;
      events.emit('riskNotice', alert);
    }
    return new Scoring({ risk, known, request, rate, alert, notice, outbox, clock, profiles: this.#profiles });
  }
}

function alertOf(
  { recent, recentCost }: RiskProfile,
  { score, signals }: Risk,
  { orgId, workloadId, callerId }: QuarantineCaller,
  recordId: string,
): RiskAlert {
  return {
    risk_score: score,
    signals,
    request_rate: withDecimals(recent / MINUTES, 2),
    cost_rate: usdFromPico(picoFromMicros(recentCost / MINUTES)),
    org_id: orgId,
    workload_id: workloadId,
    ...(callerId === undefined ? {} : { caller_id: callerId }),
    record_id: recordId,
  };
}

interface Scored {
  readonly risk: Risk;
  readonly known: KnownCaller;
  readonly request: RiskRequest;
  readonly rate: number;
  readonly alert: RiskAlert | undefined;
  /** Undefined: people are not told of this request. */
  readonly notice: RiskNotice | undefined;
  readonly outbox: Pick<Outbox, 'post'>;
  readonly clock: Clock;
  readonly profiles: RiskProfiles;
}

/** A request until its record is stored. */
class Scoring implements ScoredCall {
  readonly #scored: Scored;
  #outcome: RiskOutcome | undefined;
  #posted: readonly Posted[] = NONE;

  constructor(scored: Scored) {
    this.#scored = scored;
  }

  get risk(): Risk {
    return this.#scored.risk;
  }

  /** Of what people are told there is a record; they are not told of each call. */
  get needsRecord(): boolean {
    return this.#scored.notice !== undefined;
  }

  effects(record: ExecutionRecord): readonly Effect[] {
    const { alert, notice, outbox, clock } = this.#scored;
    this.#outcome = outcomeOf(record, clock.now());
    if (alert === undefined) return NOTHING;
    this.#posted = [outbox.post('riskAlert', alert), ...(notice ? [outbox.post('riskNotice', alert)] : [])];
    return this.#posted.flatMap(({ effects }) => effects);
  }

  stored(): void {
    for (const posted of this.#posted) posted.stored();
    this.#learn();
  }

  /** Who is refused too often for a record each is learnt of all the same. */
  summed(record: ExecutionRecord): void {
    this.#outcome = outcomeOf(record, this.#scored.clock.now());
    this.#learn();
  }

  #learn(): void {
    const { known, request, rate, profiles } = this.#scored;
    if (this.#outcome) settle(known.profile, request, this.#outcome, rate);
    profiles.changed(known);
  }

  failed(): void {
    for (const posted of this.#posted) posted.failed();
    this.abandoned();
  }

  /** A notice that nobody keeps is given again. */
  abandoned(): void {
    const { notice, known } = this.#scored;
    if (notice && known.noticed === notice) known.noticed = undefined;
  }
}
