import type { Clock } from '../../base/lib/clock.ts';
import { type Bucket, type BucketShape, bucketShape, tokensAt, waitForOne } from '../../decide/limits/token-bucket.ts';
import type { Store } from '../../storage/contract/store.ts';
import { CountedOrgs } from '../registers/sharers.ts';
import type { RateRefusal, RuleLimit } from './allowance.ts';
import { type RateLimitConfig, RateLimitConfigs } from './rate-limit-configs.ts';

/** Who takes tokens. */
interface Caller {
  readonly orgId: string;
  readonly workloadId: string;
}

export interface RateLimitOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly initial: RateLimitConfig;
  /** Of the gateway. */
  readonly ownOrg: string;
  /** Whether somebody has laid down this org. Default: all are known. */
  readonly knownOrg?: (orgId: string) => boolean;
}

const MINUTE_MS = 60_000;
/** A rate may be so small that the wait for a token is no number that a header can hold. */
const LONGEST_WAIT_SECONDS = 365 * 24 * 3600;
/** Full buckets are the same as none; beyond this many they are looked for and dropped. */
const SWEEP_AT = 10_000;

/**
 * Token buckets of workloads and of rules (decision 6.1). They live in memory: a restart fills them, which errs for the
 * caller once. Workloads are registered and rules are written by operators, so neither can be made up by a caller. Orgs
 * can: see {@link CountedOrgs}.
 */
export class RateLimitService {
  readonly #clock: Clock;
  /** By org, then by workload: a joined key would be made and hashed anew for every call. */
  readonly #workloads: Map<string, Map<string, Bucket>>;
  readonly #rules = new Map<string, Bucket>();
  readonly configs: RateLimitConfigs;
  readonly #orgs: CountedOrgs;
  /** The org that was asked for last: it stays known, and calls come in rows. */
  #latest: string | undefined;
  #sweepAt = SWEEP_AT;

  private constructor(
    { clock, knownOrg = () => true }: RateLimitOptions,
    configs: RateLimitConfigs,
    workloads: Map<string, Map<string, Bucket>>,
  ) {
    this.#clock = clock;
    this.#orgs = new CountedOrgs(knownOrg);
    this.#workloads = workloads;
    this.configs = configs;
  }

  /** Starts with the configuration that was PUT last, else with `initial`. */
  static async open(options: RateLimitOptions): Promise<RateLimitService> {
    const { clock } = options;
    const workloads = new Map<string, Map<string, Bucket>>();
    const configs: RateLimitConfigs = await RateLimitConfigs.open({
      ...options,
      reshaped: (shapeBefore) => {
        for (const [orgId, buckets] of workloads) {
          for (const [workloadId, bucket] of buckets)
            reshape(bucket, shapeBefore(orgId, workloadId), configs.shapeOf(orgId, workloadId), clock.monotonic());
        }
      },
    });
    return new RateLimitService(options, configs, workloads);
  }

  /** Whose buckets an org has. */
  #sharer(orgId: string): string {
    const counted = this.#orgs.of(orgId);
    if (counted === orgId) this.#latest = orgId;
    return counted;
  }

  /** Workloads whose bucket is not full, in order. @param orgId undefined: of any org */
  keys(orgId?: string): readonly string[] {
    const now = this.#clock.monotonic();
    const wanted = orgId === undefined ? undefined : this.#sharer(orgId);
    const active = new Set<string>();
    for (const [org, workloads] of this.#workloads) {
      if (wanted !== undefined && org !== wanted) continue;
      for (const [workloadId, bucket] of workloads) {
        const shape = this.configs.shapeOf(org, workloadId);
        if (tokensAt(bucket, shape, now) < shape.capacity) active.add(workloadId);
      }
    }
    return [...active].sort();
  }

  /** Those of the rules whose bucket has no token for this workload. Takes none. */
  exhausted(named: string, workloadId: string, rules: readonly RuleLimit[]): readonly RuleLimit[] {
    const [orgId, now] = [this.#sharer(named), this.#clock.monotonic()];
    return rules.filter((rule) => tokensAt(this.#rules.get(ruleKey(orgId, workloadId, rule)), ruleShape(rule), now) < 1);
  }

  /** Until all of these rules have a token again; undefined when all of them have one. */
  refusalBy(orgId: string, workloadId: string, rules: readonly RuleLimit[]): RateRefusal | undefined {
    return this.#refusal({ orgId: this.#sharer(orgId), workloadId }, rules, 0, this.#clock.monotonic());
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
      ? { kind: 'rate', rule: inTheWay, retryAfterSeconds: Math.min(LONGEST_WAIT_SECONDS, Math.max(1, Math.ceil(wait / 1000))) }
      : undefined;
  }

  /** What {@link take} would say. Takes none. */
  look(named: string, workloadId: string, rules: readonly RuleLimit[]): RateRefusal | undefined {
    const orgId = named === this.#latest ? named : this.#sharer(named);
    const now = this.#clock.monotonic();
    const shape = this.configs.shapeOf(orgId, workloadId);
    const own = tokensAt(this.#workloads.get(orgId)?.get(workloadId), shape, now);
    return this.#refusal({ orgId, workloadId }, rules, waitForOne(own, shape), now);
  }

  /**
   * Takes one token from the workload's bucket and from that of each rule, when all of them have one; otherwise takes
   * none (policy.md, "Merging effects").
   * @returns what stands in the way longest, or undefined
   */
  take(named: string, workloadId: string, rules: readonly RuleLimit[]): RateRefusal | undefined {
    const orgId = named === this.#latest ? named : this.#sharer(named);
    const now = this.#clock.monotonic();
    const shape = this.configs.shapeOf(orgId, workloadId);
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
  giveBack(named: string, workloadId: string, rules: readonly RuleLimit[]): void {
    const orgId = named === this.#latest ? named : this.#sharer(named);
    const now = this.#clock.monotonic();
    refill(this.#workloads.get(orgId)?.get(workloadId), this.configs.shapeOf(orgId, workloadId), now);
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

  /**
   * A rule's bucket is full again after a minute without use, so those are dropped; the threshold grows when most are
   * in use.
   */
  #sweep(now: number): void {
    for (const [key, bucket] of this.#rules) if (now - bucket.at >= MINUTE_MS) this.#rules.delete(key);
    this.#sweepAt = Math.max(SWEEP_AT, this.#rules.size * 2);
  }
}

/** What a bucket holds is kept, up to the new size. */
function reshape(bucket: Bucket, before: BucketShape, after: BucketShape, now: number): void {
  if (before.capacity === after.capacity && before.refill === after.refill) return;
  bucket.tokens = Math.min(after.capacity, tokensAt(bucket, before, now));
  bucket.at = now;
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
