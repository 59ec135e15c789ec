import type { Events } from '../../base/events/bus.ts';
import { type Clock, parseTime, timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { Lru } from '../../base/lib/lru.ts';
import { usdFromPico } from '../../base/lib/money.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import type { VerifyKeys } from '../../base/lib/verify-keys.ts';
import type { RecordedDelegation } from '../../base/model/execution-record.ts';
import type { RevokedDelegation } from '../../base/model/keys.ts';
import { CONTROL_BOUNDS } from '../../base/model/org-bounds.ts';
import { type DelegatedAttribution, mergeAttribution } from '../../decide/attribution/settle-attribution.ts';
import type { DelegationLink } from '../../decide/delegation/link.ts';
import { DelegationError } from '../../decide/delegation/link.ts';
import { type VerifiedChain, verifyChain } from '../../decide/delegation/verify-chain.ts';
import type { DelegationFacts } from '../../decide/policy/facts.ts';
import type { Store } from '../../storage/contract/store.ts';
import type { DelegationCap } from '../money/allowance.ts';
import { delegationCaps } from '../money/record-cost.ts';
import type { Commit } from '../registers/commit.ts';
import { Register } from '../registers/register.ts';
import { entityWith } from '../registers/watched-space.ts';

const REVOKED = 'delegation_revoked';
/** Each is a few hundred bytes, and all are in memory. */
const MAX_REVOKED = CONTROL_BOUNDS.revokedDelegations.all;
/** Tokens whose signatures are not verified anew with each call; a chain is a few kilobytes. */
const MAX_VERIFIED = CONTROL_BOUNDS.verifiedDelegations.all;
const VERIFIED_FOR_MS = 60_000;

/**
 * A delegation whose signatures hold, and what is made of it. Whether it may be used now, here and for this is asked
 * with each call.
 */
export interface Delegation {
  readonly chain: VerifiedChain;
  /** What rules see. */
  readonly facts: DelegationFacts;
  /** What records say. */
  readonly recorded: readonly RecordedDelegation[];
  readonly attribution: DelegatedAttribution;
  /** Links that have a budget. */
  readonly caps: readonly DelegationCap[];
}

interface DelegationOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly events: Events;
  /** Undefined: no token can be verified (`GW_DELEGATION_VERIFY_KEY`). */
  readonly keys: VerifyKeys | undefined;
}

/** Delegation tokens: which of them hold, and which have been revoked (specification, "Delegation"; decision 9.4). */
export class DelegationService {
  readonly #options: DelegationOptions;
  readonly #revoked: Register<RevokedDelegation>;
  readonly #verified: Lru<string, Delegation>;

  private constructor(options: DelegationOptions, revoked: Register<RevokedDelegation>) {
    this.#options = options;
    this.#revoked = revoked;
    this.#verified = new Lru({ max: MAX_VERIFIED, ttl: { ms: VERIFIED_FOR_MS, clock: options.clock } });
  }

  static async open(options: DelegationOptions): Promise<DelegationService> {
    const read = entityWith<RevokedDelegation>('delegation_id', 'revoked_at');
    return new DelegationService(options, await Register.open(options.store, REVOKED, { read }));
  }

  /**
   * Verifies what a caller shows; at once when it was shown lately.
   * @throws DelegationError
   */
  verify(token: string): Delegation {
    const { keys, events } = this.#options;
    if (keys === undefined) {
      events.emit('delegationShown', 'refused');
      throw new DelegationError('delegation_unknown_key', 'This gateway has no key to verify delegation tokens with.');
    }
    const hash = sha256Hex(token);
    const known = this.#verified.get(hash);
    if (known !== undefined) {
      events.emit('delegationShown', 'hit');
      return known;
    }
    try {
      const made = delegationOf(verifyChain(token, keys));
      this.#verified.set(hash, made);
      events.emit('delegationShown', 'verified');
      return made;
    } catch (error) {
      events.emit('delegationShown', 'refused');
      throw error;
    }
  }

  /** Whether one of its links has been revoked: what is revoked takes along what was made of it. */
  isRevoked({ chain }: Delegation): boolean {
    return this.#revoked.size > 0 && chain.links.some(({ delegationId }) => this.#revoked.has(delegationId));
  }

  /** By which tokens end. */
  get clock(): Clock {
    return this.#options.clock;
  }

  /** All that are revoked, the newest first. */
  revoked(): readonly RevokedDelegation[] {
    return [...this.#revoked.values()].sort((a, b) => compare(b.revoked_at, a.revoked_at) || compare(a.delegation_id, b.delegation_id));
  }

  /**
   * From the next request on nothing is done under it. A second time another reason or end takes the place of the
   * first.
   * @throws GatewayError `limit_reached` when there are too many
   */
  revoke({ delegation_id: id, ...given }: Omit<RevokedDelegation, 'revoked_at'>, commit?: Commit): Promise<RevokedDelegation> {
    const next = (before: RevokedDelegation | undefined): RevokedDelegation => {
      if (before === undefined && this.#revoked.size >= MAX_REVOKED) {
        throw new GatewayError(
          'limit_reached',
          `There are ${MAX_REVOKED} revoked delegations already; remove those whose tokens have expired.`,
        );
      }
      return { delegation_id: id, ...given, revoked_at: before?.revoked_at ?? timestamp(this.#options.clock.now()) };
    };
    return this.#revoked.change(id, next, { commit });
  }

  /** Takes a revocation back. False when there is none. */
  restore(delegationId: string, commit?: Commit): Promise<boolean> {
    return this.#revoked.remove(delegationId, { commit });
  }

  /** Removes revocations of delegations that had ended by themselves before then. @returns how many */
  async removeBefore(epochMs: number): Promise<number> {
    const ended = [...this.#revoked.values()].filter(({ expires_at: end }) => end !== undefined && (parseTime(end) ?? epochMs) < epochMs);
    for (const { delegation_id: id } of ended) await this.restore(id);
    return ended.length;
  }
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}

function delegationOf(chain: VerifiedChain): Delegation {
  const recorded = Object.freeze(chain.links.map(recordedOf));
  // What a link says of who is charged, no link below it changes.
  const defaults = chain.links.map((link) => link.defaults).reduce((above, below) => mergeAttribution(above, below));
  const attribution = { defaults, overrides: chain.limits.overrides };
  return Object.freeze({ chain, facts: factsOf(chain), recorded, attribution, caps: delegationCaps(recorded) });
}

function recordedOf({ delegationId, expiresAt, issuedBy, principalId, limits: { usdMax } }: DelegationLink): RecordedDelegation {
  return {
    delegation_id: delegationId,
    expires_at: timestamp(expiresAt),
    ...(issuedBy === undefined ? {} : { issued_by: issuedBy }),
    ...(principalId === undefined ? {} : { principal_id: principalId }),
    ...(usdMax === undefined ? {} : { usd_max: usdFromPico(usdMax) }),
  };
}

/**
 * What is left of the chain (policy.md, "Merging effects"); who issued it, to whom and for whom is what the last link
 * says that says it.
 */
function factsOf({ links, leaf, depth, limits }: VerifiedChain): DelegationFacts {
  const last = <T>(of: (link: DelegationLink) => T | undefined): T | undefined => links.map(of).findLast((value) => value !== undefined);
  return {
    issued_by: last(({ issuedBy }) => issuedBy),
    principal_id: last(({ principalId }) => principalId),
    audience: last(({ audience }) => audience),
    token_id: leaf.delegationId,
    depth,
    policy_bundle_id: last(({ policyBundleId }) => policyBundleId),
    max_cost_usd: limits.usdMax === undefined ? undefined : usdFromPico(limits.usdMax),
    actions_allow: limits.actions,
    targets_allow: limits.targets,
  };
}
