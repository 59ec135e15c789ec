import type { Clock } from '../base/lib/clock.ts';
import { parseDuration } from '../base/lib/durations.ts';
import { type Bucket, type BucketShape, bucketShape, tokensAt, waitForOne } from '../decide/limits/token-bucket.ts';
import type { Store } from '../storage/contract/store.ts';
import { type Commit, commitAlone } from './commit.ts';
import { WatchedSpace } from './watched-space.ts';

/** The rate limiter's configuration (specification, "Rate limit config"): `refill_rate` tokens per `window_duration`, at most `max_tokens` in hand. */
export interface RateLimitConfig {
  readonly refill_rate: number;
  readonly max_tokens: number;
  /** A duration such as `1m`. */
  readonly window_duration: string;
}

/** A rule's own bucket: its size per workload and minute (decision 6.1). */
export interface RuleLimit {
  readonly layer: string;
  readonly rule_id: string;
  readonly requests_per_minute: number;
}

/** Why a request takes no token now. */
export interface RateRefusal {
  /** Undefined: the workload's own bucket. */
  readonly rule: RuleLimit | undefined;
  /** Whole seconds, from 1 to a year. */
  readonly retryAfterSeconds: number;
}

/** Who takes tokens. */
interface Caller {
  readonly orgId: string;
  readonly workloadId: string;
}

interface OrgLimit {
  readonly config: RateLimitConfig;
  readonly shape: BucketShape;
}

const SPACE = 'rate_limit';
const CONFIG = 'config';
/** Configurations of orgs that have one of their own, by org. */
const OF_ORG = 'rate_limit_org';
const MINUTE_MS = 60_000;
/** A rate may be so small that the wait for a token is no number that a header can hold. */
const LONGEST_WAIT_SECONDS = 365 * 24 * 3600;
/** Full buckets are the same as none; beyond this many they are looked for and dropped. */
const SWEEP_AT = 10_000;

/**
 * Token buckets of workloads and of rules (decision 6.1). They live in memory: a restart fills them, which errs for the caller once.
 * Workloads are registered and rules are written by operators, so neither can be made up by a caller.
 */
export class RateLimitService {
  readonly #store: Store;
  readonly #clock: Clock;
  /** By org, then by workload: a joined key would be made and hashed anew for every call. */
  readonly #workloads = new Map<string, Map<string, Bucket>>();
  readonly #rules = new Map<string, Bucket>();
  #config: RateLimitConfig;
  #shape: BucketShape;
  #ofOrgs: WatchedSpace<OrgLimit> | undefined;
  #sweepAt = SWEEP_AT;

  private constructor(store: Store, clock: Clock, config: RateLimitConfig) {
    this.#store = store;
    this.#clock = clock;
    this.#config = config;
    this.#shape = shapeOf(config);
  }

  /** Starts with the configuration that was PUT last, else with `initial`. */
  static async open(options: { store: Store; clock: Clock; initial: RateLimitConfig }): Promise<RateLimitService> {
    const stored = await options.store.get(SPACE, CONFIG);
    const service = new RateLimitService(options.store, options.clock, (stored as RateLimitConfig | undefined) ?? options.initial);
    service.#ofOrgs = await WatchedSpace.open(options.store, OF_ORG, {
      read: (value) => ({ config: value as RateLimitConfig, shape: shapeOf(value as RateLimitConfig) }),
      changed: (orgId, now, before) => service.#reshape(orgId, before?.shape ?? service.#shape, now?.shape ?? service.#shape),
    });
    return service;
  }

  /** Of orgs that have none of their own. */
  get config(): RateLimitConfig {
    return this.#config;
  }

  /** That counts for an org. */
  configOf(orgId: string): RateLimitConfig {
    return this.#ofOrgs?.get(orgId)?.config ?? this.#config;
  }

  /** Gives an org a configuration of its own, for good. */
  async configureOrg(orgId: string, config: RateLimitConfig, commit: Commit = commitAlone(this.#store)): Promise<void> {
    await commit(orgId, [{ op: 'put', space: OF_ORG, key: orgId, value: config }]);
    await this.#ofOrgs?.refresh(orgId);
  }

  /** Replaces the configuration for good; what buckets hold is kept, up to the new size. */
  async configure(config: RateLimitConfig, commit: Commit = commitAlone(this.#store)): Promise<void> {
    const shape = shapeOf(config);
    await commit(undefined, [{ op: 'put', space: SPACE, key: CONFIG, value: config }]);
    for (const orgId of this.#workloads.keys()) if (this.#ofOrgs?.has(orgId) !== true) this.#reshape(orgId, this.#shape, shape);
    this.#config = config;
    this.#shape = shape;
  }

  /** What buckets hold is kept, up to the new size. */
  #reshape(orgId: string, before: BucketShape, after: BucketShape): void {
    const now = this.#clock.monotonic();
    for (const bucket of this.#workloads.get(orgId)?.values() ?? []) {
      bucket.tokens = Math.min(after.capacity, tokensAt(bucket, before, now));
      bucket.at = now;
    }
  }

  #shapeFor(orgId: string): BucketShape {
    return this.#ofOrgs === undefined || this.#ofOrgs.size === 0 ? this.#shape : (this.#ofOrgs.get(orgId)?.shape ?? this.#shape);
  }

  /** Workloads whose bucket is not full, in order. @param orgId undefined: of any org */
  keys(orgId?: string): readonly string[] {
    const now = this.#clock.monotonic();
    const active = new Set<string>();
    for (const [org, workloads] of this.#workloads) {
      if (orgId !== undefined && org !== orgId) continue;
      const shape = this.#shapeFor(org);
      for (const [workloadId, bucket] of workloads) if (tokensAt(bucket, shape, now) < shape.capacity) active.add(workloadId);
    }
    return [...active].sort();
  }

  /** True when the rule's bucket has no token for this workload. Takes none. */
  exhausted(orgId: string, workloadId: string, rule: RuleLimit): boolean {
    const bucket = this.#rules.get(ruleKey(orgId, workloadId, rule));
    return tokensAt(bucket, ruleShape(rule), this.#clock.monotonic()) < 1;
  }

  /** Until all of these rules have a token again; undefined when all of them have one. */
  refusalBy(orgId: string, workloadId: string, rules: readonly RuleLimit[]): RateRefusal | undefined {
    return this.#refusal({ orgId, workloadId }, rules, 0, this.#clock.monotonic());
  }

  #refusal({ orgId, workloadId }: Caller, rules: readonly RuleLimit[], ownWait: number, now: number): RateRefusal | undefined {
    let wait = ownWait;
    let inTheWay: RuleLimit | undefined;
    for (const rule of rules) {
      const shape = ruleShape(rule);
      const needed = waitForOne(tokensAt(this.#rules.get(ruleKey(orgId, workloadId, rule)), shape, now), shape);
      if (needed <= wait) continue;
      wait = needed;
      inTheWay = rule;
    }
    return wait > 0
      ? { rule: inTheWay, retryAfterSeconds: Math.min(LONGEST_WAIT_SECONDS, Math.max(1, Math.ceil(wait / 1000))) }
      : undefined;
  }

  /** What {@link take} would say. Takes none. */
  look(orgId: string, workloadId: string, rules: readonly RuleLimit[]): RateRefusal | undefined {
    const now = this.#clock.monotonic();
    const shape = this.#shapeFor(orgId);
    const own = tokensAt(this.#workloads.get(orgId)?.get(workloadId), shape, now);
    return this.#refusal({ orgId, workloadId }, rules, waitForOne(own, shape), now);
  }

  /**
   * Takes one token from the workload's bucket and from that of each rule, when all of them have one; otherwise takes none (policy.md, "Merging effects").
   * @returns what stands in the way longest, or undefined
   */
  take(orgId: string, workloadId: string, rules: readonly RuleLimit[]): RateRefusal | undefined {
    const now = this.#clock.monotonic();
    const shape = this.#shapeFor(orgId);
    const own = tokensAt(this.#workloads.get(orgId)?.get(workloadId), shape, now);
    const refusal = this.#refusal({ orgId, workloadId }, rules, waitForOne(own, shape), now);
    if (refusal) return refusal;
    spend(this.#ofOrg(orgId), workloadId, own - 1, now);
    for (const rule of rules) {
      const key = ruleKey(orgId, workloadId, rule);
      spend(this.#rules, key, tokensAt(this.#rules.get(key), ruleShape(rule), now) - 1, now);
    }
    if (this.#rules.size > this.#sweepAt) this.#sweep(now);
    return undefined;
  }

  /** Gives back what {@link take} took for a call that was refused all the same. */
  giveBack(orgId: string, workloadId: string, rules: readonly RuleLimit[]): void {
    const now = this.#clock.monotonic();
    refill(this.#workloads.get(orgId)?.get(workloadId), this.#shapeFor(orgId), now);
    for (const rule of rules) refill(this.#rules.get(ruleKey(orgId, workloadId, rule)), ruleShape(rule), now);
  }

  #ofOrg(orgId: string): Map<string, Bucket> {
    let workloads = this.#workloads.get(orgId);
    if (workloads === undefined) {
      workloads = new Map();
      this.#workloads.set(orgId, workloads);
    }
    return workloads;
  }

  /** A rule's bucket is full again after a minute without use, so those are dropped; the threshold grows when most are in use. */
  #sweep(now: number): void {
    for (const [key, bucket] of this.#rules) if (now - bucket.at >= MINUTE_MS) this.#rules.delete(key);
    this.#sweepAt = Math.max(SWEEP_AT, this.#rules.size * 2);
  }
}

function spend(buckets: Map<string, Bucket>, key: string, left: number, now: number): void {
  const bucket = buckets.get(key);
  if (bucket === undefined) buckets.set(key, { tokens: left, at: now });
  else {
    bucket.tokens = left;
    bucket.at = now;
  }
}

/** One token more, as far as there is room. */
function refill(bucket: Bucket | undefined, shape: BucketShape, now: number): void {
  if (bucket === undefined) return;
  bucket.tokens = Math.min(shape.capacity, tokensAt(bucket, shape, now) + 1);
  bucket.at = now;
}

/** Ids hold no line ends (decision 4.7). */
function ruleKey(orgId: string, workloadId: string, rule: RuleLimit): string {
  return `${rule.layer}\n${rule.rule_id}\n${orgId}\n${workloadId}`;
}

function ruleShape(rule: RuleLimit): BucketShape {
  return bucketShape(rule.requests_per_minute, rule.requests_per_minute, MINUTE_MS);
}

/** @throws RangeError when the window is no duration; callers have checked it */
function shapeOf(config: RateLimitConfig): BucketShape {
  const windowMs = parseDuration(config.window_duration);
  if (windowMs === undefined || windowMs <= 0) throw new RangeError(`"${config.window_duration}" is no window`);
  return bucketShape(config.max_tokens, config.refill_rate, windowMs);
}
