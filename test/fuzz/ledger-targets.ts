import { createHash, createPublicKey } from 'node:crypto';
import { AmbiguousJsonError, unambiguousJson } from '../../src/base/json/unambiguous-json.ts';
import { ChainWalk } from '../../src/ledger/chain-walk.ts';
import { checkInclusion } from '../../src/ledger/inclusion-proof.ts';
import { listedKey, readKeyList, readKeys, readProofAnswer, readRootsPage } from '../../src/ledger/ledger-answers.ts';
import { LedgerError } from '../../src/ledger/ledger-error.ts';
import { checkSignature } from '../../src/ledger/merkle-root.ts';
import { readWatchedChain } from '../../src/ledger/watched-chain.ts';
import { ledgerKey } from '../support/made-ledger.ts';
import { type FuzzTarget, must } from './target.ts';

/** The key that has signed the corpus. */
const KEYS = readKeys([listedKey('ledger-1', 'ledger', createPublicKey(ledgerKey(7)))], 'ledger');
/** The one record that the corpus proves something of. */
const RECORD = createHash('sha256').update('record 1').digest('hex');

const READERS: Readonly<Record<string, (value: unknown) => string>> = {
  proof(value) {
    const { proof } = readProofAnswer(value);
    if (proof === undefined) return 'pending';
    checkInclusion(proof, proof.record_hash);
    checkSignature(proof.root, KEYS);
    must(proof.record_hash === RECORD && proof.leaf_count === 2, 'nothing is proved but what the root was signed over');
    return 'proved';
  },
  roots(value) {
    const walk = new ChainWalk(KEYS);
    for (const root of readRootsPage(value)) walk.take(root);
    const { first, sequence, org_id: orgId } = walk.end();
    must(orgId === 'acme' && first >= 1 && sequence <= 2, 'no chain holds but what was signed');
    return `${first} to ${sequence}`;
  },
  keys(value) {
    const keys = readKeyList(value);
    must(
      keys.every(({ public_key: key }) => Buffer.from(key, 'base64').length === 32),
      'a key has 32 bytes',
    );
    return `${Math.min(keys.length, 3)} keys`;
  },
  state(value) {
    const state = readWatchedChain(value);
    must(JSON.stringify(readWatchedChain(JSON.parse(JSON.stringify(state)))) === JSON.stringify(state), 'what is kept is what is read');
    return `state ${state.sequence === 0}`;
  },
};

/** Each reader of proofs, roots, keys and states: what it takes may come from anybody. */
const answers: FuzzTarget = {
  name: 'ledger-answers',
  inputs: 1_000_000,
  dear: true,
  headLines: 0,
  dictionary: [
    '"sequence":1',
    '"sequence":2',
    '"leaf_index":0',
    '"leaf_count":2',
    '"path":[',
    '"side":"left"',
    '"side":"right"',
    '"sig":{"alg":"ed25519","kid":"ledger-1","sig":"',
    '"use":"ledger"',
    '"use":"bundle"',
    '"alg":"ed25519"',
    '"data":[',
    '"org_id":"acme"',
    '"prev_root_hash":"',
    '"schema":"gw.merkle_root.v1"',
    '"schema":"gw.inclusion_proof.v1"',
    '"status":"verified"',
    '"__proto__":{',
    '\\ud800',
    '\\u0064ata',
    '9007199254740993',
    '1e999',
    '-0',
    '[[[[',
    ',',
    '}}',
  ],
  run(input) {
    let value: unknown;
    try {
      value = unambiguousJson(input);
    } catch (error) {
      if (error instanceof AmbiguousJsonError) return 'unreadable';
      throw error;
    }
    return Object.entries(READERS)
      .map(([name, read]) => outcome(name, () => read(value)))
      .join();
  },
};

function outcome(name: string, read: () => string): string {
  try {
    return `${name} ${read()}`;
  } catch (error) {
    if (!(error instanceof LedgerError)) throw error;
    return error.message.slice(0, error.message.indexOf(':') + 1);
  }
}

export const LEDGER_TARGETS: readonly FuzzTarget[] = [answers];
