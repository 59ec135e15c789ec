import type { Limits } from './link.ts';
import { covers, type DelegationCode, DelegationError, pathSegments } from './link.ts';
import type { VerifiedChain } from './verify-chain.ts';

/** How far the clock of an issuer may be ahead, milliseconds (decision 9.4). Nothing is added to an end. */
const MAX_AHEAD_MS = 30_000;

/** Whose call it is, and when. */
export interface Bearer {
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly orgId: string;
  readonly workloadId: string;
  /** `delegation_id` of the request, where it has one. */
  readonly delegationId: string | undefined;
  /** Of the snapshot that decides this request. */
  readonly policyBundleId: string | undefined;
}

/** What is really sent. */
export interface Sent {
  readonly actionType: string;
  readonly method: string;
  /** Canonical. */
  readonly host: string;
  /** As sent, with or without its query. */
  readonly path: string;
  readonly model: string | undefined;
}

/**
 * Whether this caller may use the chain now. Asked with each call, also of a chain that was verified before.
 * @throws DelegationError
 */
export function checkBearer({ links, leaf }: VerifiedChain, bearer: Bearer): void {
  for (const { issuedAt, expiresAt, policyBundleId } of links) {
    if (expiresAt <= issuedAt) deny('delegation_malformed', 'The delegation token ends before it begins.');
    if (expiresAt <= bearer.now) deny('delegation_expired', 'The delegation token has expired.');
    if (issuedAt > bearer.now + MAX_AHEAD_MS) deny('delegation_not_yet_valid', 'The delegation token was issued in the future.');
    if (policyBundleId !== undefined && policyBundleId !== bearer.policyBundleId) {
      deny('delegation_bundle_mismatch', 'The delegation token holds for another policy bundle than the active one.');
    }
  }
  if (leaf.orgId !== bearer.orgId) deny('delegation_org_mismatch', 'The delegation token is for another org.');
  if (leaf.workloadId !== bearer.workloadId) deny('delegation_workload_mismatch', 'The delegation token is for another workload.');
  if (bearer.delegationId !== undefined && bearer.delegationId !== leaf.delegationId) {
    deny('delegation_malformed', 'delegation_id of the request is not that of the delegation token.');
  }
}

/**
 * Whether the chain allows a call, or as much of it as is here. A model that is there and undefined cannot be known,
 * and is none that is allowed.
 * @throws DelegationError
 */
export function checkSent({ limits }: VerifiedChain, sent: Partial<Sent>): void {
  for (const { allows, code, what } of CHECKS) {
    if (what in sent && !allows(limits, sent as Sent)) deny(code, `The delegation token does not allow this ${NAMES[what]}.`);
  }
}

const NAMES = { method: 'method', path: 'path', actionType: 'action', host: 'host', model: 'model' } as const;

interface Check {
  readonly what: keyof Sent;
  readonly code: DelegationCode;
  allows(limits: Limits, sent: Sent): boolean;
}

/** In this order. */
const CHECKS: readonly Check[] = [
  { what: 'method', code: 'delegation_method_not_allowed', allows: ({ methods }, { method }) => holds(methods, method.toUpperCase()) },
  { what: 'path', code: 'delegation_resource_not_allowed', allows: ({ resources }, { path }) => isCovered(resources, path) },
  { what: 'actionType', code: 'delegation_action_not_allowed', allows: ({ actions }, { actionType }) => holds(actions, actionType) },
  { what: 'host', code: 'delegation_target_not_allowed', allows: ({ targets }, { host }) => holds(targets, host) },
  { what: 'model', code: 'delegation_model_not_allowed', allows: ({ models }, { model }) => holds(models, model) },
];

function holds(allowed: readonly string[] | undefined, value: string | undefined): boolean {
  return allowed === undefined || (value !== undefined && allowed.includes(value));
}

function isCovered(patterns: Limits['resources'], path: string): boolean {
  if (patterns === undefined) return true;
  const segments = pathSegments(path);
  return segments !== undefined && patterns.some((pattern) => covers(pattern, segments));
}

function deny(code: DelegationCode, message: string): never {
  throw new DelegationError(code, message);
}
