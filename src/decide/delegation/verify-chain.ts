import { verify } from 'node:crypto';
import { canonicalJson } from '../../base/json/jcs.ts';
import { isJsonObject, type JsonObject } from '../../base/json/json-object.ts';
import { bytesOfBase64 } from '../../base/lib/basic-credentials.ts';
import type { VerifyKeys } from '../../base/lib/verify-keys.ts';
import { intersection } from './attenuation.ts';
import { DelegationError, type DelegationLink, type Limits, malformed, readLink } from './link.ts';
import { objectOfToken } from './token-text.ts';

/** Most links of a chain, the root included (specification, "Delegation"). */
export const MAX_CHAIN = 3;
export const DELEGATION_SCHEMA = 'gw.delegation.v2';
const SIGNATURE_BYTES = 64;

/** What the links of a chain say, of which no one is wider than its parent. */
export interface DelegationChain {
  /** Root first. */
  readonly links: readonly [DelegationLink, ...DelegationLink[]];
  readonly leaf: DelegationLink;
  readonly depth: number;
  readonly limits: Limits;
}

declare const VERIFIED: unique symbol;

/** A chain whose signatures hold. Time, org and workload are judged with each call. */
export type VerifiedChain = DelegationChain & { readonly [VERIFIED]: true };

/**
 * Verifies the text of `delegation_token`: its form, its depth, each link's schema, algorithm, key and signature, only
 * then fields, and how links narrow.
 * @throws DelegationError
 */
export function verifyChain(text: string, keys: VerifyKeys): VerifiedChain {
  return chainOf(text, (token) => checkSignature(token, keys)) as VerifiedChain;
}

/**
 * What a token says, whoever may have written it: for those who make tokens, or look at one.
 * @throws DelegationError
 */
export function readChain(text: string): DelegationChain {
  return chainOf(text, () => undefined);
}

function chainOf(text: string, check: (token: JsonObject) => void): DelegationChain {
  const tokens = nested(objectOfToken(text));
  const depth = depthOf(tokens);
  for (const token of tokens) check(token);
  const [root, ...rest] = tokens;
  const links: [DelegationLink, ...DelegationLink[]] = [readLink(root), ...rest.map(readLink)];
  if (new Set(links.map((link) => link.delegationId)).size !== links.length) malformed('two links have one delegation_id');
  return { links, leaf: links.at(-1) ?? links[0], depth, limits: intersection(links) };
}

/** The tokens of a nesting, root first. */
function nested(leaf: JsonObject): [JsonObject, ...JsonObject[]] {
  const found: [JsonObject, ...JsonObject[]] = [leaf];
  for (let parent = leaf['parent']; parent !== undefined; parent = found[0]['parent']) {
    if (!isJsonObject(parent)) malformed('parent is not an object');
    found.unshift(parent);
    if (found.length > MAX_CHAIN) tooDeep();
  }
  return found;
}

/** Depth is the shape. A token without parent may say that its issuer stands deeper; what a child says must be so. */
function depthOf(tokens: readonly JsonObject[]): number {
  let depth = 0;
  for (const token of tokens) {
    const claimed = token['depth'];
    depth++;
    if (claimed === undefined) continue;
    if (typeof claimed !== 'number' || !Number.isInteger(claimed) || claimed < 1) malformed('depth is not a positive integer');
    if (depth === 1) depth = claimed;
    else if (claimed !== depth) malformed('depth is not that of the chain');
  }
  return depth > MAX_CHAIN ? tooDeep() : depth;
}

function tooDeep(): never {
  throw new DelegationError('delegation_depth_exceeded', `The delegation chain has more than ${MAX_CHAIN} links.`);
}

function checkSignature(token: JsonObject, keys: VerifyKeys): void {
  const { sig, ...signed } = token;
  if (token['schema'] !== DELEGATION_SCHEMA) malformed(`schema is not ${DELEGATION_SCHEMA}`);
  if (!isJsonObject(sig) || sig['alg'] !== 'ed25519') malformed('sig.alg is not ed25519');
  const { kid, sig: encoded } = sig;
  if (typeof kid !== 'string') malformed('sig.kid is not a text');
  const signature = typeof encoded === 'string' ? bytesOfBase64(encoded) : undefined;
  if (signature?.length !== SIGNATURE_BYTES) malformed(`sig.sig is not base64 of ${SIGNATURE_BYTES} bytes`);
  const key = keys.find(kid);
  if (key === undefined) throw new DelegationError('delegation_unknown_key', 'No key is known that verifies the delegation token.');
  if (!verify(null, Buffer.from(canonicalJson(signed), 'utf8'), key, signature)) {
    throw new DelegationError('delegation_bad_signature', 'The signature of the delegation token does not hold.');
  }
}
