import { canonicalJson } from '../../src/base/json/jcs.ts';
import { readVerifyKeys } from '../../src/base/lib/verify-keys.ts';
import { DelegationError } from '../../src/decide/delegation/link.ts';
import { type DelegationChain, readChain, verifyChain } from '../../src/decide/delegation/verify-chain.ts';
import { corpusOf } from './corpus.ts';
import { type FuzzTarget, must } from './target.ts';

/** Of the key that signed the corpus and was thrown away then. */
const KEYS = readVerifyKeys('fuzz=nnRq6mddw/O5ur/p2gwqtJUIhqFT5fJZdzCmDX37SGk=');
const FOLDER = 'delegation-token';

/** Every object that was signed with it, in canonical form. */
let signed: ReadonlySet<string> | undefined;

function signedTokens(): ReadonlySet<string> {
  const found = new Set<string>();
  for (const { bytes } of corpusOf(FOLDER)) {
    for (let token: unknown = JSON.parse(bytes.toString()); isToken(token); token = token['parent'])
      if ('sig' in token) found.add(canonicalJson(token));
  }
  return found;
}

function isToken(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

/** The JSON of a token, as its base64. */
const token: FuzzTarget = {
  name: FOLDER,
  inputs: 1_000_000,
  dear: true,
  headLines: 0,
  dictionary: [
    '"parent":',
    '"sig":{"alg":"ed25519","kid":"fuzz","sig":"',
    '"delegation_id":"root"',
    '"org_id":"o"',
    '"org_id":"p",',
    '"depth":1',
    '"usd_max":"99"',
    '"allowed_models":["*"]',
    '"expires_at":"2099-01-01T00:00:00Z"',
    '"schema":"gw.delegation.v2"',
    '"scope":{',
    '"budget":{',
    '"attribution":{"defaults":{',
    '"__proto__":{',
    '\\u0070arent',
    '\\ud800',
    '9007199254740993',
    '1e999',
    '-0',
    '[[[[',
    ' ',
    '\n',
    ',',
    '}}',
  ],
  run(input) {
    const text = input.toString('base64');
    const read = codeOf(() => readChain(text));
    const verified = codeOf(() => verifyChain(text, KEYS));
    if (typeof verified === 'string') return `${typeof read === 'string' ? read : 'read'} ${verified}`;
    must(typeof read !== 'string', 'what is verified can be read');
    signed ??= signedTokens();
    must(signed.has(canonicalJson(JSON.parse(input.toString()))), 'nothing holds but what was signed');
    return `holds ${verified.depth}`;
  },
};

function codeOf(call: () => DelegationChain): DelegationChain | string {
  try {
    return call();
  } catch (error) {
    if (error instanceof DelegationError) return error.code;
    throw error;
  }
}

export const DELEGATION_TARGETS: readonly FuzzTarget[] = [token];
