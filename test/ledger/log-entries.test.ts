// Roots in a transparency log: entries of the public Rekor, and entries of ours that somebody has changed.
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { canonicalJson } from '../../src/base/json/jcs.ts';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { checkLogEntry, leafOfEntry, logKeysOf, readLogAnswer, readNamedEntry } from '../../src/ledger/log-entry.ts';
import { type MerkleRoot, rootDigest } from '../../src/ledger/merkle-root.ts';
import {
  checkListedEntry,
  type ListedLogEntry,
  proposeRoot,
  ROOT_PAYLOAD_TYPE,
  readLogEntriesPage,
  signedOfPayload,
} from '../../src/ledger/root-entry.ts';
import { ledgerKey, makeLedger } from '../support/made-ledger.ts';
import { skipWithout } from '../support/peers.ts';
import { fc } from '../support/properties.ts';
import { tempDir } from '../support/temp-dir.ts';
import { openssl } from '../support/time-stamp-authority.ts';
import { type AnsweredEntry, startLog } from '../support/transparency-log.ts';

const LEDGER = makeLedger([['11'.repeat(32)], ['22'.repeat(32)], ['33'.repeat(32)]]);
const [FIRST, SECOND] = LEDGER.roots as readonly [MerkleRoot, MerkleRoot];

interface Vectors {
  readonly key: string;
  readonly entries: Readonly<Record<string, AnsweredEntry>>;
}

t.test('entries of the public log hold, and each tampering that its users publish is found', async (t) => {
  const { key, entries } = JSON.parse(readFileSync(join(packageRoot(), 'test/vectors/rekor/entries.json'), 'utf8')) as Vectors;
  const keys = logKeysOf(key);
  const expected: Readonly<Record<string, string | RegExp>> = {
    dsse: '2024-12-16T18:42:56.000Z',
    hashedrekord: '2025-12-18T17:04:39.000Z',
    set_invalid_signature: /signedEntryTimestamp does not fit/,
    inclusion_proof_corrupted_hash: /its path does not lead to rootHash/,
    checkpoint_bad_keyhint: /its log has not signed the checkpoint/,
    checkpoint_wrong_roothash: /its checkpoint is of another tree/,
    invalid_checkpoint_signature: /the signature of its checkpoint does not fit/,
  };
  t.same(Object.keys(entries), Object.keys(expected));
  for (const [name, value] of Object.entries(entries)) {
    const { entry } = readLogAnswer({ [leafOfEntry(Buffer.from(value.body, 'base64'))]: value });
    const wanted = expected[name] ?? '';
    if (typeof wanted === 'string') t.equal(checkLogEntry(entry, keys), wanted, name);
    else t.throws(() => checkLogEntry(entry, keys), { message: wanted }, name);
  }
  const body = Buffer.from(entries['dsse']?.body ?? '', 'base64').toString();
  t.equal(canonicalJson(JSON.parse(body)), body, 'what stands in the log is canonical');
  const ours = JSON.parse(Buffer.from(proposeRoot(FIRST, ledgerKey(7)).body, 'base64').toString()) as object;
  t.same(shapeOf(ours), shapeOf(JSON.parse(body)), 'ours has the same members');
});

/** Names of all members, without values. */
function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shapeOf);
  if (typeof value !== 'object' || value === null) return typeof value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, shapeOf(member)]));
}

t.test('what is signed of a payload is that of the DSSE protocol', async (t) => {
  t.equal(
    signedOfPayload('http://example.com/HelloWorld', 'hello world').toString(),
    'DSSEv1 29 http://example.com/HelloWorld 11 hello world',
  );
  t.equal(signedOfPayload('é', 'ü').toString(), 'DSSEv1 2 é 2 ü', 'lengths are those of bytes');
});

/** The first root in a log, which has others before and behind it. */
async function entered(t: Test, key?: KeyObject) {
  const log = await startLog(t, key);
  const send = async (proposal: string) => (await fetch(`${log.url}/api/v1/log/entries`, { method: 'POST', body: proposal })).json();
  await send(proposeRoot(SECOND, ledgerKey(7)).proposal);
  const answer: unknown = await send(proposeRoot(FIRST, ledgerKey(7)).proposal);
  const listed: ListedLogEntry = { sequence: 1, ...readLogAnswer(answer) };
  return { log, listed, logKeys: logKeysOf(readFileSync(log.keyFile, 'utf8')) };
}

t.test('an entry of a root holds in logs of each kind of key, and each thing that is changed is found', async (t) => {
  const kinds = [
    undefined,
    generateKeyPairSync('ec', { namedCurve: 'P-384' }).privateKey,
    generateKeyPairSync('ed25519').privateKey,
    generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey,
  ];
  for (const kind of kinds) {
    const { listed, logKeys } = await entered(t, kind);
    t.equal(checkListedEntry(listed, FIRST, LEDGER.keys, logKeys), '2026-09-21T14:13:21.000Z');
  }
  const { log, listed, logKeys } = await entered(t);
  const stranger = logKeysOf(readFileSync((await startLog(t)).keyFile, 'utf8'));
  const check = (change: (entry: AnsweredEntry) => void, signAnew = false) => {
    const entry = structuredClone(listed.entry) as AnsweredEntry;
    change(entry);
    if (signAnew) log.signAnew(entry);
    return () => checkListedEntry({ entry }, FIRST, LEDGER.keys, logKeys);
  };
  const proofOf = ({ verification }: AnsweredEntry) => verification.inclusionProof;
  const wrong: readonly (readonly [what: string, check: () => unknown, message: RegExp])[] = [
    ['another time', check((entry) => entry.integratedTime++), /signedEntryTimestamp does not fit/],
    ['another index', check((entry) => entry.logIndex++), /signedEntryTimestamp does not fit/],
    ['another log', check((entry) => (entry.logID = 'ab'.repeat(32))), /its log is none whose key is believed/],
    ['another leaf', check((entry) => (proofOf(entry).logIndex = 0)), /its path does not lead to rootHash/],
    ['no leaf', check((entry) => (proofOf(entry).logIndex = 2)), /its index 2 is not below the size of its tree/],
    ['a longer path', check((entry) => proofOf(entry).hashes.push('00'.repeat(32))), /its path is not that of leaf 1 of 2/],
    ['another path', check((entry) => (proofOf(entry).hashes[0] = '00'.repeat(32))), /its path does not lead to rootHash/],
    ['another tree', check((entry) => (proofOf(entry).treeSize = 3)), /its path is not that of leaf|its checkpoint is of another tree/],
    [
      'a checkpoint of another size',
      check((entry) => (proofOf(entry).checkpoint = proofOf(entry).checkpoint.replace('\n2\n', '\n3\n'))),
      /its checkpoint is of another tree/,
    ],
    [
      'a checkpoint of another origin',
      check((entry) => (proofOf(entry).checkpoint = proofOf(entry).checkpoint.replace('42', '43'))),
      /the signature of its checkpoint does not fit/,
    ],
    ['a checkpoint that is none', check((entry) => (proofOf(entry).checkpoint = 'x')), /note: it is no text/],
    [
      'something else, by a log that signs it',
      check((entry) => (entry.body = proposeRoot(SECOND, ledgerKey(7)).body), true),
      /it is of something else than this root/,
    ],
    ['what is no envelope', check((entry) => (entry.body = Buffer.from('{}').toString('base64')), true), /it is no signed envelope/],
    ['what is no JSON', check((entry) => (entry.body = Buffer.from('x').toString('base64')), true), /log entry: it cannot be read/],
    [
      'a stranger to the ledger',
      check((entry) => (entry.body = proposeRoot(FIRST, ledgerKey(8)).body), true),
      /the key that entered it is none of the ledger/,
    ],
    ['another root', () => checkListedEntry(listed, SECOND, LEDGER.keys, logKeys), /it is of something else than this root/],
    [
      'another ledger',
      () => checkListedEntry(listed, FIRST, makeLedger([], { seed: 8 }).keys, logKeys),
      /the key that entered it is none of the ledger/,
    ],
    ['another key of the log', () => checkListedEntry(listed, FIRST, LEDGER.keys, stranger), /its log is none whose key is believed/],
  ];
  for (const [what, call, message] of wrong) t.throws(call, { message }, what);
  t.equal(checkListedEntry(listed, FIRST, LEDGER.keys, [...stranger, ...logKeys]), '2026-09-21T14:13:21.000Z', 'one of several keys');
  const forged = structuredClone(listed.entry) as AnsweredEntry;
  forged.verification.signedEntryTimestamp = 'AAAA';
  t.equal(checkListedEntry({ entry: forged }, FIRST, LEDGER.keys, undefined), '2026-09-21T14:13:21.000Z', 'without a key it is of anybody');
});

function signedOf(entry: ListedLogEntry['entry']): string {
  return canonicalJson(entry).replace(/— [^ ]+ /, '');
}

t.test('a byte that is changed in an entry is found, wherever it is', async (t) => {
  const { listed, logKeys } = await entered(t);
  const text = JSON.stringify({ data: [{ ...listed, time: 'x' }] });
  const open = Buffer.from(text);
  fc.assert(
    fc.property(fc.nat({ max: open.length - 1 }), fc.integer({ min: 1, max: 127 }), (at, change) => {
      const changed = Buffer.from(open);
      changed[at] = (open[at] ?? 0) ^ change;
      let value: unknown;
      try {
        value = JSON.parse(changed.toString());
      } catch {
        return true;
      }
      try {
        const [one] = readLogEntriesPage(value);
        if (one === undefined) return false;
        checkListedEntry(one, FIRST, LEDGER.keys, logKeys);
        // Only what nobody signs may differ: the id of the tree in the name, the sequence, which names a root, and how
        // the log calls itself before its signature.
        return signedOf(one.entry) === signedOf(listed.entry);
      } catch (error) {
        return error instanceof Error && error.constructor.name === 'LedgerError';
      }
    }),
    { numRuns: 1_000 },
  );
});

t.test('answers of a log that are none are refused in one line', async (t) => {
  const { listed } = await entered(t);
  const { uuid, entry } = listed;
  const without = (name: string) => Object.fromEntries(Object.entries(entry).filter(([member]) => member !== name));
  const proof = (members: object) => {
    const { verification } = entry;
    return { ...entry, verification: { ...verification, inclusionProof: { ...verification.inclusionProof, ...members } } };
  };
  const wrong: readonly (readonly [value: unknown, message: RegExp])[] = [
    [[], /not one entry under its name/],
    [{}, /not one entry under its name/],
    [{ [uuid]: entry, x: entry }, /not one entry under its name/],
    [{ [uuid]: 'x' }, /it is not an object/],
    [{ x: entry }, /it has no name of 64 or 80 hexadecimal digits/],
    [{ ['ab'.repeat(32)]: entry }, /its name is that of another one/],
    [{ [uuid]: without('verification') }, /verification is not an object/],
    [{ [uuid]: { ...entry, verification: { signedEntryTimestamp: 'AAAA' } } }, /inclusionProof is not an object/],
    [{ [uuid]: { ...entry, verification: { ...entry.verification, signedEntryTimestamp: '' } } }, /signedEntryTimestamp is not base64/],
    [{ [uuid]: { ...entry, body: 'A' } }, /body is not base64/],
    [{ [uuid]: { ...entry, integratedTime: 253_402_300_800 } }, /integratedTime is no time/],
    [{ [uuid]: { ...entry, logIndex: -1 } }, /logIndex is not a whole number/],
    [{ [uuid]: proof({ hashes: 'x' }) }, /hashes is not a list/],
    [{ [uuid]: proof({ hashes: Array.from({ length: 65 }, () => 'ab'.repeat(32)) }) }, /hashes is not a list of up to 64/],
    [{ [uuid]: proof({ hashes: ['x'] }) }, /hash 1: hash is not 64 lower-case/],
    [{ [uuid]: proof({ checkpoint: undefined }) }, /it has no checkpoint/],
  ];
  for (const [value, message] of wrong) t.throws(() => readLogAnswer(value), { message });
  t.throws(() => readNamedEntry(undefined, entry), { message: /it has no name/ });
  t.throws(() => logKeysOf('x'), { message: /there is no public key in it/ });
  const x25519 = generateKeyPairSync('x25519').publicKey.export({ type: 'spki', format: 'pem' }).toString();
  t.throws(() => logKeysOf(x25519), { message: /a key of the kind x25519 signs no log/ });
});

t.test('openssl says the same of both signatures', { skip: skipWithout(['openssl']) }, async (t) => {
  const { log, listed } = await entered(t);
  const dir = tempDir(t);
  const file = (name: string, content: string | Buffer) => writeFileSync(join(dir, name), content);
  const { spec } = JSON.parse(Buffer.from(listed.entry.body, 'base64').toString()) as {
    spec: { payloadHash: { value: string }; signatures: readonly { signature: string; verifier: string }[] };
  };
  const [signer] = spec.signatures;
  t.equal(spec.payloadHash.value, rootDigest(FIRST), 'it is found by the digest of the root');
  const payload = canonicalJson(FIRST);
  file('envelope.bin', `DSSEv1 ${ROOT_PAYLOAD_TYPE.length} ${ROOT_PAYLOAD_TYPE} ${Buffer.byteLength(payload)} ${payload}`);
  file('envelope.sig', Buffer.from(signer?.signature ?? '', 'base64'));
  file('ledger.pem', Buffer.from(signer?.verifier ?? '', 'base64'));
  const raw = ['pkeyutl', '-verify', '-pubin', '-inkey', 'ledger.pem', '-rawin', '-in', 'envelope.bin', '-sigfile', 'envelope.sig'];
  t.match(openssl(dir, ...raw), /Signature Verified Successfully/);
  const { body, integratedTime, logID, logIndex, verification } = listed.entry;
  file('promise.bin', `{"body":"${body}","integratedTime":${integratedTime},"logID":"${logID}","logIndex":${logIndex}}`);
  file('promise.sig', Buffer.from(verification.signedEntryTimestamp, 'base64'));
  t.match(openssl(dir, 'dgst', '-sha256', '-verify', log.keyFile, '-signature', 'promise.sig', 'promise.bin'), /Verified OK/);
});
