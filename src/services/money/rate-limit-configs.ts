import { parseDuration } from '../../base/lib/clock.ts';
import { type ErrorDetail, GatewayError } from '../../base/lib/gateway-error.ts';
import { type BucketShape, bucketShape } from '../../decide/limits/token-bucket.ts';
import type { Store } from '../../storage/contract/store.ts';
import type { Commit } from '../registers/commit.ts';
import { workloadKey } from '../registers/org-key.ts';
import { Register } from '../registers/register.ts';
import { WORKLOAD_RATES, type WorkloadRate } from './workload-rates.ts';

/**
 * The rate limiter's configuration (specification, "Rate limit config"): `refill_rate` tokens per `window_duration`, at
 * most `max_tokens` in hand.
 */
export interface RateLimitConfig {
  readonly refill_rate: number;
  readonly max_tokens: number;
  /** A duration such as `1m`. */
  readonly window_duration: string;
}

/** A configuration, and how buckets fill by it. */
interface Limit {
  readonly config: RateLimitConfig;
  readonly shape: BucketShape;
}

const SPACE = 'rate_limit';
const CONFIG = 'config';
/** What orgs other than the gateway's own have laid down, by org. */
export const RATE_LIMITS_OF_ORGS = 'rate_limit_org';

export interface RateLimitConfigOptions {
  readonly store: Store;
  /** Until somebody has laid down another. */
  readonly initial: RateLimitConfig;
  /** The gateway's own org. */
  readonly ownOrg: string;
  /**
   * Told behind each change of what holds for a workload that {@link RateLimitConfigs.shapeOf} gave another shape
   * before.
   */
  readonly reshaped: (shapeBefore: ShapeOf) => void;
}

type ShapeOf = (orgId: string, workloadId: string) => BucketShape;
/** By org, then by workload. */
type OfWorkloads = ReadonlyMap<string, ReadonlyMap<string, Limit>>;

interface StoredConfigs {
  readonly own: Register<RateLimitConfig>;
  readonly orgs: Register<RateLimitConfig>;
  readonly workloads: Register<WorkloadRate>;
}

/**
 * The configurations of the rate limiter (decision 6.1): one of the gateway, which is that of its own org, and for
 * other orgs what each of them has laid down. Of those two the tighter holds, in its rate and in its size, so that the
 * operator's is a bound for everybody; and so it is between an org and what it has laid down for one of its workloads
 * (decision 6.1). What any node on the same store lays down counts at every one.
 */
export class RateLimitConfigs {
  readonly #options: RateLimitConfigOptions;
  #gateway: Limit;
  /** What holds for orgs that have laid down something, by org. */
  #ofOrgs: ReadonlyMap<string, Limit> = new Map();
  /** What holds for workloads for which their org has laid down something. */
  #ofWorkloads: OfWorkloads = new Map();
  readonly #stored: StoredConfigs;

  private constructor(options: RateLimitConfigOptions, stored: StoredConfigs) {
    this.#options = options;
    this.#stored = stored;
    this.#gateway = limitOf(options.initial);
  }

  static async open(options: RateLimitConfigOptions): Promise<RateLimitConfigs> {
    await mergeOwn(options);
    // Told of while it is opened: what is read first is not all.
    let configs: RateLimitConfigs | undefined;
    const changed = (): void => {
      if (configs !== undefined) configs.#settle();
    };
    const watched = { read: (value: unknown) => value as RateLimitConfig, changed };
    configs = new RateLimitConfigs(options, {
      own: await Register.open(options.store, SPACE, watched),
      orgs: await Register.open(options.store, RATE_LIMITS_OF_ORGS, watched),
      workloads: await Register.open(options.store, WORKLOAD_RATES, {
        read: (value) => value as WorkloadRate,
        orgOf: ({ org_id: orgId }) => orgId,
        changed,
      }),
    });
    configs.#settle();
    return configs;
  }

  /** What holds for an org. @param orgId default: the gateway's own */
  of(orgId: string = this.#options.ownOrg): RateLimitConfig {
    return (this.#ofOrgs.get(orgId) ?? this.#gateway).config;
  }

  /** How the bucket of a workload fills: as those of its org, unless it has a limit of its own. */
  shapeOf(orgId: string, workloadId: string): BucketShape {
    return shapeIn(this.#ofWorkloads, orgId, workloadId) ?? this.#shapeOfOrg(orgId);
  }

  #shapeOfOrg(orgId: string): BucketShape {
    return this.#ofOrgs.size === 0 ? this.#gateway.shape : (this.#ofOrgs.get(orgId) ?? this.#gateway).shape;
  }

  /**
   * Lays down the configuration of an org for good.
   * @param orgId default: the gateway's own, whose configuration is the bound for all others
   * @throws GatewayError `invalid_request` for another org's that is looser than the gateway's, each looser member by
   * its name
   */
  async put(orgId: string | undefined, config: RateLimitConfig, commit?: Commit): Promise<void> {
    const { own, orgs } = this.#stored;
    const how = { commit, object: orgId };
    if (orgId === undefined || orgId === this.#options.ownOrg) return own.changeAll(new Map([[CONFIG, config]]), how);
    refuseLooser(config, this.#gateway.config);
    return orgs.changeAll(new Map([[orgId, config]]), how);
  }

  /** Limits of single workloads of an org, by their ids. */
  workloadRates(orgId: string): readonly WorkloadRate[] {
    return this.#stored.workloads.ofOrg(orgId);
  }

  /**
   * Lays down the limit of one workload for good, in the place of one that is there.
   * @throws GatewayError `invalid_request` when it is looser than what holds for the org
   */
  async putWorkloadRate(rate: WorkloadRate, commit?: Commit): Promise<void> {
    const { refill_rate, window_duration } = this.of(rate.org_id);
    if (isFaster(configOf(rate), this.of(rate.org_id))) {
      const message = `must come to at most ${refill_rate} per ${window_duration}, as the configuration of the org says, which a workload can only tighten`;
      throw new GatewayError('invalid_request', 'The rate limit has 1 bad member(s).', {
        details: [{ path: 'requests_per_minute', message }],
      });
    }
    await this.#stored.workloads.change(workloadKey(rate), () => rate, { commit, object: rate.workload_id });
  }

  /** False when the workload has none. */
  removeWorkloadRate(orgId: string, workloadId: string, commit?: Commit): Promise<boolean> {
    const key = workloadKey({ org_id: orgId, workload_id: workloadId });
    return this.#stored.workloads.remove(key, { commit, object: workloadId });
  }

  #settle(): void {
    const { initial, ownOrg, reshaped } = this.#options;
    const { own, orgs, workloads } = this.#stored;
    const before = { gateway: this.#gateway, ofOrgs: this.#ofOrgs, ofWorkloads: this.#ofWorkloads };
    this.#gateway = limitOf(own.get(CONFIG) ?? initial);
    const laid = [...orgs.entries()].filter(([orgId]) => orgId !== ownOrg);
    this.#ofOrgs = new Map(laid.map(([orgId, config]) => [orgId, limitOf(tighter(config, this.#gateway.config))]));
    this.#ofWorkloads = this.#tightened(workloads.values());
    reshaped((orgId, workloadId) => shapeIn(before.ofWorkloads, orgId, workloadId) ?? (before.ofOrgs.get(orgId) ?? before.gateway).shape);
  }

  #tightened(rates: Iterable<WorkloadRate>): OfWorkloads {
    const made = new Map<string, Map<string, Limit>>();
    for (const rate of rates) {
      const { org_id: orgId, workload_id: workloadId } = rate;
      const ofOrg = made.get(orgId) ?? new Map<string, Limit>();
      made.set(orgId, ofOrg.set(workloadId, limitOf(tighter(configOf(rate), this.of(orgId)))));
    }
    return made;
  }
}

/** Undefined where the workload has no limit of its own; one comparison while none has. */
function shapeIn(limits: OfWorkloads, orgId: string, workloadId: string): BucketShape | undefined {
  return limits.size === 0 ? undefined : limits.get(orgId)?.get(workloadId)?.shape;
}

function configOf({ requests_per_minute: rate }: WorkloadRate): RateLimitConfig {
  return { refill_rate: rate, max_tokens: rate, window_duration: '1m' };
}

/**
 * Before there was one configuration for the gateway and its own org, each could hide the other: what management had
 * laid down for that org becomes part of the one. Where both are there the tighter holds.
 */
async function mergeOwn({ store, ownOrg }: RateLimitConfigOptions): Promise<void> {
  const ofOrg = (await store.get(RATE_LIMITS_OF_ORGS, ownOrg)) as RateLimitConfig | undefined;
  if (ofOrg === undefined) return;
  const stored = (await store.get(SPACE, CONFIG)) as RateLimitConfig | undefined;
  await store.commit(undefined, [
    { op: 'put', space: SPACE, key: CONFIG, value: stored === undefined ? ofOrg : tighter(ofOrg, stored) },
    { op: 'delete', space: RATE_LIMITS_OF_ORGS, key: ownOrg },
  ]);
}

function tighter(one: RateLimitConfig, other: RateLimitConfig): RateLimitConfig {
  const { refill_rate, window_duration } = isFaster(one, other) ? other : one;
  return { refill_rate, max_tokens: Math.min(one.max_tokens, other.max_tokens), window_duration };
}

function isFaster(one: RateLimitConfig, other: RateLimitConfig): boolean {
  return one.refill_rate * windowOf(other) > other.refill_rate * windowOf(one);
}

/** @throws GatewayError `invalid_request` */
function refuseLooser(config: RateLimitConfig, bound: RateLimitConfig): void {
  const details: ErrorDetail[] = [];
  const why = 'as the configuration of the gateway says, which an org can only tighten';
  if (isFaster(config, bound))
    details.push({ path: 'refill_rate', message: `must come to at most ${bound.refill_rate} per ${bound.window_duration}, ${why}` });
  if (config.max_tokens > bound.max_tokens) details.push({ path: 'max_tokens', message: `must be at most ${bound.max_tokens}, ${why}` });
  if (details.length > 0) throw new GatewayError('invalid_request', `The configuration has ${details.length} bad member(s).`, { details });
}

function limitOf(config: RateLimitConfig): Limit {
  return { config, shape: bucketShape(config.max_tokens, config.refill_rate, windowOf(config)) };
}

/** Milliseconds. @throws RangeError when the window is no duration; callers have checked it */
function windowOf({ window_duration: text }: RateLimitConfig): number {
  const windowMs = parseDuration(text);
  if (windowMs === undefined || windowMs <= 0) throw new RangeError(`"${text}" is no window`);
  return windowMs;
}
