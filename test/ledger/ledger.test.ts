import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, verify } from 'node:crypto';
import { readFileSync } from 'node:fs';
import t from 'tap';
import { sha256Hex } from '../../src/base/lib/sha256.ts';
import { ChainWalk, followChain, nothingSeen, type SeenRoot } from '../../src/ledger/chain-walk.ts';
import { type ConsistencyProof, checkConsistency, consistencyRanges, readConsistency } from '../../src/ledger/consistency-proof.ts';
import { checkInclusion, proveInclusion, readProof, recordLeaf } from '../../src/ledger/inclusion-proof.ts';
import { type ListedKey, listedKey, readKeys } from '../../src/ledger/ledger-answers.ts';
import { LedgerError } from '../../src/ledger/ledger-error.ts';
import { checkSignature, type MerkleRoot, NO_ROOT, ROOT_SCHEMA, readRoot, rootDigest, signRoot } from '../../src/ledger/merkle-root.ts';
import { climb, leafHash, nodeHash, pathToRoot, sidesOf, treeRoot } from '../../src/ledger/merkle-tree.ts';
import { TreeFrontier } from '../../src/ledger/tree-frontier.ts';
import { makeLedger } from '../support/made-ledger.ts';

function vectors<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(`../../../test/vectors/${name}`, import.meta.url), 'utf8')) as T;
}

const KEY = createPrivateKey({
  key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), Buffer.alloc(32, 7)]),
  format: 'der',
  type: 'pkcs8',
});
const PUBLIC = createPublicKey(KEY);
const KEYS = readKeys([listedKey('ledger-1', 'ledger', PUBLIC)], 'ledger');

function record(number: number): string {
  return sha256Hex(`record ${number}`);
}

function batch(size: number, sequence = 1, before = NO_ROOT, org = 'acme', key: KeyObject = KEY): { hashes: string[]; root: MerkleRoot } {
  const hashes = Array.from({ length: size }, (_, at) => record(sequence * 1_000 + at));
  const root = signRoot(
    {
      schema: ROOT_SCHEMA,
      batch_id: `${org}-${sequence}`,
      org_id: org,
      sequence,
      prev_root_hash: before,
      root_hash: treeRoot(hashes.map(recordLeaf)).toString('hex'),
      leaf_count: size,
      closed_at: '2026-01-01T00:00:00.000Z',
    },
    'ledger-1',
    key,
  );
  return { hashes, root };
}

function chain(length: number): MerkleRoot[] {
  const roots: MerkleRoot[] = [];
  for (let sequence = 1; sequence <= length; sequence++) {
    const before = roots.at(-1);
    roots.push(batch(3, sequence, before === undefined ? NO_ROOT : rootDigest(before)).root);
  }
  return roots;
}

t.test('leaves, nodes and roots are those of RFC 6962', async (t) => {
  const tree = vectors<{
    leaf_inputs_hex: string[];
    leaf_hashes_hex: string[];
    root_hash_hex_by_tree_size: string[];
    hasher: Record<string, string>;
  }>('merkle/rfc6962-tree.json');
  const leaves = tree.leaf_inputs_hex.map((hex) => leafHash(Buffer.from(hex, 'hex')));
  t.same(
    leaves.map((leaf) => leaf.toString('hex')),
    tree.leaf_hashes_hex,
  );
  for (const [size, root] of tree.root_hash_hex_by_tree_size.entries()) {
    t.equal(treeRoot(leaves.slice(0, size)).toString('hex'), root, `${size} leaves`);
  }
  t.equal(leafHash(Buffer.alloc(0)).toString('hex'), tree.hasher['leaf_of_empty']);
  t.equal(leafHash(Buffer.from('L123456')).toString('hex'), tree.hasher['leaf_of_ascii_L123456']);
  t.equal(nodeHash(Buffer.from('N123'), Buffer.from('N456')).toString('hex'), tree.hasher['node_of_ascii_N123_N456']);
});

t.test('paths of published trees are those that we make, with their sides', async (t) => {
  interface Case {
    readonly leaf_index: number;
    readonly leaf_count: number;
    readonly leaf_input_hex: string;
    readonly path: readonly { readonly side: string; readonly hash: string }[];
    readonly root_hash: string;
  }
  const cases = vectors<Case[]>('merkle/inclusion-side-form.json');
  const inputs = cases
    .filter(({ leaf_count }) => leaf_count === 8)
    .map(({ leaf_input_hex }) => leafHash(Buffer.from(leaf_input_hex, 'hex')));
  t.equal(cases.length, 36);
  for (const { leaf_index, leaf_count, path, root_hash } of cases) {
    const made = pathToRoot(inputs.slice(0, leaf_count), leaf_index);
    t.same(
      made.map(({ side, hash }) => ({ side, hash: hash.toString('hex') })),
      path,
      `leaf ${leaf_index} of ${leaf_count}`,
    );
    t.same(
      sidesOf(leaf_index, leaf_count),
      path.map(({ side }) => side),
    );
    t.equal(climb(inputs[leaf_index] as Buffer, made).toString('hex'), root_hash);
  }
  t.throws(() => pathToRoot(inputs, 8), RangeError);
  t.throws(() => pathToRoot([], 0), RangeError);
});

t.test('of the published inclusion proofs those are taken that are right, and no other', async (t) => {
  interface Case {
    readonly name: string;
    readonly leafIdx: number;
    readonly treeSize: number;
    readonly root: string;
    readonly leafHash: string;
    readonly proof: readonly string[] | null;
    readonly wantErr: boolean;
  }
  const cases = vectors<Case[]>('merkle/inclusion.json');
  t.equal(cases.length, 98);
  for (const { name, leafIdx, treeSize, root, leafHash: leaf, proof, wantErr } of cases) {
    const siblings = (proof ?? []).map((hash) => Buffer.from(hash, 'base64'));
    const known = Number.isSafeInteger(leafIdx) && leafIdx >= 0 && leafIdx < treeSize;
    const sides = known ? sidesOf(leafIdx, treeSize) : [];
    const fits = known && sides.length === siblings.length && [Buffer.from(leaf, 'base64'), ...siblings].every((one) => one.length === 32);
    const taken =
      fits &&
      climb(
        Buffer.from(leaf, 'base64'),
        siblings.map((hash, at) => ({ side: sides[at] ?? 'left', hash })),
      ).equals(Buffer.from(root, 'base64'));
    t.equal(taken, !wantErr, name);
  }
});

t.test('of the published consistency proofs those are taken that are right, and no other', async (t) => {
  interface Case {
    readonly name: string;
    readonly size1: number;
    readonly size2: number;
    readonly root1: string;
    readonly root2: string;
    readonly proof: readonly string[] | null;
    readonly wantErr: boolean;
  }
  const cases = vectors<Case[]>('merkle/consistency.json');
  t.equal(cases.length, 98);
  const hex = (base64: string) => Buffer.from(base64, 'base64').toString('hex');
  /** One tree of them is no hash. */
  const root = (base64: string) => hex(base64).padEnd(64, '0');
  for (const { name, size1, size2, root1, root2, proof, wantErr } of cases) {
    const taken = isTaken(() => {
      const said = {
        first: { sequence: 1, tree_size: size1, tree_hash: root(root1) },
        second: { sequence: 2, tree_size: size2, tree_hash: root(root2) },
        path: (proof ?? []).map(hex),
      };
      const read = readConsistency(said);
      checkConsistency(read, read.first, read.second);
    });
    t.equal(taken, !wantErr, name);
  }
});

function isTaken(check: () => void): boolean {
  try {
    check();
    return true;
  } catch (error) {
    if (error instanceof LedgerError) return false;
    throw error;
  }
}

t.test('of any two trees of one ledger the later goes on from the earlier, and nothing that was tampered with does', async (t) => {
  const most = 40;
  const leaves = Array.from({ length: most }, (_, at) => Buffer.from(record(at), 'hex'));
  const hashes = leaves.map(leafHash);
  const head = (size: number, sequence: number) => ({
    sequence,
    tree_size: size,
    tree_hash: treeRoot(hashes.slice(0, size)).toString('hex'),
  });
  const frontier = TreeFrontier.empty();
  for (const [at, leaf] of leaves.entries()) {
    const nodes = new Map<string, string>();
    frontier.add(leaf, (level, index, hash) => nodes.set(`${level}/${index}`, hash.toString('hex')));
    t.equal(frontier.root.toString('hex'), head(at + 1, 1).tree_hash);
    t.equal(TreeFrontier.of(at + 1, frontier.peaks)?.root.toString('hex'), head(at + 1, 1).tree_hash, 'as it was kept');
    for (const [name, hash] of nodes) {
      const [level = 0, index = 0] = name.split('/').map(Number);
      t.equal(hash, treeRoot(hashes.slice(index * 2 ** level, (index + 1) * 2 ** level)).toString('hex'), name);
    }
  }
  t.equal(TreeFrontier.of(5, ['00'.repeat(32)]), undefined, 'peaks of a tree of another size');
  let tampered = 0;
  for (let second = 1; second <= most; second++) {
    for (let first = 1; first <= second; first++) {
      const path = consistencyRanges(first, second).map(({ start, end }) => treeRoot(hashes.slice(start, end)).toString('hex'));
      const [from, to] = [head(first, 1), head(second, 2)];
      const proof = readConsistency(JSON.parse(JSON.stringify({ first: from, second: to, path })));
      checkConsistency(proof, from, to);
      const wrong: ConsistencyProof[] = [
        ...path.map((hash, at) => ({ ...proof, path: path.with(at, flipped(hash)) })),
        ...path.map((_, at) => ({ ...proof, path: path.toSpliced(at, 1) })),
        { ...proof, path: [...path, record(1)] },
        { ...proof, first: { ...from, tree_hash: flipped(from.tree_hash) } },
        { ...proof, second: { ...to, tree_hash: flipped(to.tree_hash) } },
      ];
      // Of some trees the path says nothing of the size: what is signed does.
      for (const one of [
        { ...proof, second: { ...to, tree_size: second + 1 } },
        { ...proof, first: { ...from, tree_size: first + 1 } },
      ])
        t.notOk(
          isTaken(() => checkConsistency(one, from, to)),
          'a tree that no root signs',
        );
      for (const one of wrong) {
        tampered++;
        if (isTaken(() => checkConsistency(one, one.first, one.second)) || isTaken(() => checkConsistency(one, from, to)))
          t.fail(`${first} to ${second}: ${JSON.stringify(one)}`);
      }
    }
  }
  t.ok(tampered > 5_000, `${tampered} that were tampered with`);
  const lost = { first: head(3, 1), second: head(5, 2), path: [] };
  t.throws(() => checkConsistency(lost, lost.second, lost.first), /first is root 1, not root 2/);
  t.throws(() => checkConsistency({ ...lost, first: lost.second, second: lost.first }, lost.second, lost.first), /fewer leaves \(3\)/);
});

/** With another first digit. */
function flipped(hash: string): string {
  return (hash.startsWith('0') ? '1' : '0') + hash.slice(1);
}

t.test('what is no consistency proof is refused, and it is said why', async (t) => {
  const tree = { sequence: 1, tree_size: 1, tree_hash: record(1) };
  const good = { first: tree, second: tree, path: [] };
  const wrong: readonly (readonly [value: unknown, message: RegExp])[] = [
    [[], /it is not an object/],
    [{ ...good, path: {} }, /path is not a list/],
    [{ ...good, path: Array.from({ length: 129 }, () => record(1)) }, /at most 128/],
    [{ ...good, path: ['x'] }, /path 1: hash is not 64/],
    [{ ...good, first: undefined }, /first is not an object/],
    [{ ...good, first: { ...tree, tree_size: 0 } }, /first: tree_size is not a whole number from 1 up/],
    [{ ...good, second: { ...tree, tree_hash: 'AA' } }, /second: tree_hash is not 64/],
  ];
  for (const [value, message] of wrong) t.throws(() => readConsistency(value), message);
});

t.test('published checkpoints have our roots, and their signatures hold', async (t) => {
  const { vkey, leaf_data_utf8, checkpoints } = vectors<{ vkey: string; leaf_data_utf8: string[]; checkpoints: string[] }>(
    'merkle/signed-checkpoints.json',
  );
  const raw = Buffer.from(vkey.split('+').slice(2).join('+'), 'base64').subarray(1);
  const keys = readKeys([{ kid: 'log', alg: 'ed25519', use: 'ledger', public_key: raw.toString('base64') }], 'ledger');
  const key = keys.find('log');
  if (key === undefined) throw new Error('no key');
  for (const checkpoint of checkpoints) {
    const [, size = '', root = ''] = checkpoint.split('\n');
    const leaves = leaf_data_utf8.slice(0, Number(size)).map((text) => leafHash(Buffer.from(text)));
    t.equal(treeRoot(leaves).toString('base64'), root, `${size} leaves`);
    const [text = '', signature = ''] = checkpoint.split('\n\n');
    const bytes = Buffer.from(signature.trim().split(' ').at(-1) ?? '', 'base64').subarray(4);
    t.ok(verify(undefined, Buffer.from(`${text}\n`), key, bytes));
  }
});

t.test('signatures are judged as Wycheproof says', async (t) => {
  interface Group {
    readonly publicKey: { readonly pk: string };
    readonly tests: readonly { readonly tcId: number; readonly msg: string; readonly sig: string; readonly result: string }[];
  }
  const { testGroups } = vectors<{ testGroups: Group[] }>('ed25519/wycheproof-ed25519.json');
  let count = 0;
  for (const { publicKey, tests } of testGroups) {
    const key = readKeys(
      [{ kid: 'k', alg: 'ed25519', use: 'ledger', public_key: Buffer.from(publicKey.pk, 'hex').toString('base64') }],
      'ledger',
    ).find('k');
    if (key === undefined) throw new Error('no key');
    for (const { tcId, msg, sig, result } of tests) {
      count++;
      t.equal(verify(undefined, Buffer.from(msg, 'hex'), key, Buffer.from(sig, 'hex')), result === 'valid', `${tcId}`);
    }
  }
  t.equal(count, 151);
});

t.test('each record of a batch of any size is proved, by what is read from JSON', async (t) => {
  for (const size of [1, 2, 3, 7, 64, 100, 255, 256]) {
    const { hashes, root } = batch(size);
    for (const [index, hash] of hashes.entries()) {
      const proof = readProof(JSON.parse(JSON.stringify(proveInclusion(hashes, index, root))));
      checkInclusion(proof, hash);
      checkSignature(proof.root, KEYS);
      if (proof.path.length > 8) t.fail('a batch of 256 is at most eight levels high');
    }
    t.pass(`${size}`);
  }
});

t.test('a proof that was tampered with is refused, and it is said what does not fit', async (t) => {
  const { hashes, root } = batch(5);
  const good = proveInclusion(hashes, 2, root);
  const other = batch(5, 2);
  const hash = hashes[2] ?? '';
  const wrong: readonly (readonly [what: string, proof: unknown, of: string, message: RegExp])[] = [
    ['another record', good, record(1), /of another record/],
    ['another record hash in it', { ...good, record_hash: record(1) }, hash, /of another record/],
    ['another record hash, asked for', { ...good, record_hash: record(1) }, record(1), /does not lead to root_hash/],
    ['another index', { ...good, leaf_index: 3 }, hash, /not that of leaf 3 of 5/],
    ['an index beyond', { ...good, leaf_index: 5 }, hash, /not below leaf_count/],
    ['a negative index', { ...good, leaf_index: -1 }, hash, /leaf_index is not a whole number/],
    ['an index that is no number', { ...good, leaf_index: '2' }, hash, /leaf_index is not a whole number/],
    ['another count', { ...good, leaf_count: 6 }, hash, /another number of leaves/],
    ['another count in both', { ...good, leaf_count: 9, root: { ...root, leaf_count: 9 } }, hash, /not that of leaf 2 of 9/],
    ['a sibling less', { ...good, path: good.path.slice(1) }, hash, /not that of leaf/],
    ['a sibling more', { ...good, path: [...good.path, ...good.path] }, hash, /not that of leaf/],
    ['a side turned', { ...good, path: good.path.map((one) => ({ ...one, side: 'left' })) }, hash, /not that of leaf/],
    ['a side that is none', { ...good, path: [{ side: 'up', hash: record(1) }] }, hash, /neither left nor right/],
    ['another sibling', { ...good, path: good.path.map((one) => ({ ...one, hash: record(9) })) }, hash, /does not lead/],
    ['a sibling that is no hash', { ...good, path: [{ side: 'left', hash: 'AB' }] }, hash, /64 lower-case/],
    ['another root', { ...good, root: { ...root, root_hash: record(9) } }, hash, /does not lead/],
    ['the root of another batch', { ...good, root: other.root }, hash, /of another batch/],
    ['another schema', { ...good, schema: 'gw.inclusion_proof.v2' }, hash, /schema is not gw.inclusion_proof.v1/],
    ['no path', { ...good, path: undefined }, hash, /path is not a list/],
    ['nothing', undefined, hash, /not an object/],
  ];
  for (const [what, proof, of, message] of wrong) {
    t.throws(() => checkInclusion(readProof(JSON.parse(JSON.stringify(proof ?? null))), of), { message }, what);
  }
});

t.test('a root is believed when the key of its kid has signed all of it', async (t) => {
  const { root } = batch(3);
  checkSignature(readRoot(JSON.parse(JSON.stringify(root))), KEYS);
  const stranger = generateKeyPairSync('ed25519');
  const changed: readonly (readonly [what: string, root: unknown, message: RegExp])[] = [
    ['a member changed', { ...root, leaf_count: 4 }, /signature does not fit/],
    ['a member more', { ...root, note: 'later' }, /signature does not fit/],
    ['the org changed', { ...root, org_id: 'other' }, /signature does not fit/],
    ['a stranger signs with our kid', batch(3, 1, NO_ROOT, 'acme', stranger.privateKey).root, /signature does not fit/],
    ['an unknown kid', { ...root, sig: { ...root.sig, kid: 'other' } }, /a key that is not known \(other\)/],
    ['another algorithm', { ...root, sig: { ...root.sig, alg: 'none' } }, /alg is not ed25519/],
    ['half a signature', { ...root, sig: { ...root.sig, sig: root.sig.sig.slice(0, 44) } }, /signature does not fit/],
    ['no signature', { ...root, sig: undefined }, /sig is not an object/],
    ['sequence 0', { ...root, sequence: 0 }, /sequence is not a whole number from 1/],
    ['half a pair of surrogates', { ...root, note: '\ud800' }, /no canonical form/],
  ];
  for (const [what, one, message] of changed) {
    t.throws(() => checkSignature(readRoot(structuredClone(one)), KEYS), { message }, what);
  }
  const more = signRoot({ ...root, note: 'a later version says more' } as MerkleRoot, 'ledger-1', KEY);
  checkSignature(readRoot(JSON.parse(JSON.stringify(more))), KEYS);
  t.pass('members that a later version adds are covered by the signature, and read over');
});

t.test('a chain is followed from what was seen, and says where it does not fit', async (t) => {
  const roots = chain(6);
  const end = followChain(nothingSeen('acme'), roots, KEYS);
  t.equal(end.sequence, 6);
  const half = followChain(nothingSeen('acme'), roots.slice(0, 3), KEYS);
  t.same(followChain(half, roots.slice(3), KEYS), end);
  t.same(followChain(end, [], KEYS), end);
  const [first, second, third] = roots as [MerkleRoot, MerkleRoot, MerkleRoot];
  const forked = batch(4, 3, rootDigest(second)).root;
  const wrong: readonly (readonly [what: string, seen: SeenRoot, roots: readonly MerkleRoot[], message: RegExp])[] = [
    ['one is missing', nothingSeen('acme'), [first, third], /root 2 should stand there/],
    ['turned round', nothingSeen('acme'), [second, first], /root 1 should stand there/],
    ['twice', nothingSeen('acme'), [first, first], /root 2 should stand there/],
    ['of another org', nothingSeen('other'), [first], /of another org \(acme\)/],
    ['rewritten behind what was seen', half, [batch(3, 4, rootDigest(forked)).root], /history was rewritten/],
    ['a beginning that is none', nothingSeen('acme'), [batch(3, 1, rootDigest(first)).root], /not 64 zeros/],
  ];
  for (const [what, seen, given, message] of wrong) t.throws(() => followChain(seen, given, KEYS), { message }, what);
  t.throws(() => followChain(nothingSeen('acme'), [batch(3, 1, NO_ROOT, 'acme', generateKeyPairSync('ed25519').privateKey).root], KEYS), {
    message: /signature does not fit/,
  });
});

t.test('listed keys are read by their use, and what cannot be read is named', async (t) => {
  const key = listedKey('a', 'ledger', PUBLIC);
  t.same(key, {
    kid: 'a',
    alg: 'ed25519',
    use: 'ledger',
    public_key: PUBLIC.export({ type: 'spki', format: 'der' }).subarray(-32).toString('base64'),
  });
  const other: ListedKey = { ...key, kid: 'b', use: 'bundle' };
  const read = readKeys([key, other, { kid: 'c', alg: 'p256', use: 'ledger' }], 'ledger');
  t.ok(read.find('a'));
  t.equal(read.find('b'), undefined);
  t.equal(read.find('c'), undefined);
  t.throws(() => readKeys([key, key], 'ledger'), { message: /two keys of the name a/ });
  t.throws(() => readKeys([{ ...key, public_key: 'AAAA' }], 'ledger'), { message: /not the 32 bytes/ });
  t.throws(() => readKeys(['key'], 'ledger'), { message: /not an object/ });
  t.throws(() => listedKey('rsa', 'ledger', generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey), TypeError);
});

t.test('the trees that roots sign are those of their batches, and a chain may begin before there were trees', async (t) => {
  const batches = [1, 2, 3, 4].map((sequence) => Array.from({ length: sequence }, (_, at) => record(sequence * 10 + at)));
  for (const treesFrom of [1, 2, 3, 5]) {
    const { roots } = makeLedger(batches, { treesFrom });
    const seen = followChain(nothingSeen('acme'), roots, KEYS);
    t.equal(seen.leaves, 10);
    t.equal(seen.tree?.tree_size, treesFrom <= 4 ? 10 : undefined);
  }
  const { roots } = makeLedger(batches);
  const signedAnew = (at: number, change: Partial<MerkleRoot>) => {
    const { sig: _sig, ...root } = roots[at] as MerkleRoot;
    return signRoot({ ...root, ...change }, 'ledger-1', KEY);
  };
  t.throws(
    () => followChain(nothingSeen('acme'), [signedAnew(0, { tree_size: 2 })], KEYS),
    /root 1: tree_size is 2, and 1 hashes are under/,
  );
  t.throws(() => followChain(nothingSeen('acme'), [signedAnew(0, { tree_hash: record(9) })], KEYS), /root 1: tree_hash is not root_hash/);
  t.throws(() => readRoot({ ...roots[0], tree_hash: undefined }), /root 1: tree_hash is not 64/);
  t.throws(() => readRoot({ ...roots[0], tree_size: undefined }), /root 1: tree_size is not a whole number/);
  const walk = new ChainWalk(KEYS);
  t.throws(() => walk.take(signedAnew(2, { tree_size: 2 })), /root 3: tree_size is 2/, 'fewer than its own batch has');
});
