import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { sha256Hex } from '../../src/base/lib/sha256.ts';
import type { ConsistencyProof } from '../../src/ledger/consistency-proof.ts';
import { endorse } from '../../src/ledger/key-endorsement.ts';
import type { ListedKey } from '../../src/ledger/ledger-answers.ts';
import { type MerkleRoot, rootDigest, signRoot, type UnsignedRoot } from '../../src/ledger/merkle-root.ts';
import { eventually, launch } from '../support/child.ts';
import { MAIN } from '../support/gateway-process.ts';
import { ledgerKey, type MadeLedger, madeRecord, makeLedger, startLedgerSite } from '../support/made-ledger.ts';
import { gw } from '../support/run-gw.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

const RECORDS = Array.from({ length: 12 }, (_, at) =>
  madeRecord({ record_id: `0197a0c0-0000-7000-8000-0000000000${10 + at}`, org_id: 'acme', cost: at / 1e7 }),
);
const HASHES = RECORDS.map(({ hash }) => hash);
const BATCHES = [HASHES.slice(0, 5), HASHES.slice(5, 6), HASHES.slice(6, 9), HASHES.slice(9)];
const LEDGER = makeLedger(BATCHES);

interface Place {
  /** Writes a file and says where it is. */
  file(name: string, content: unknown): string;
}

function place(t: HasTeardown): Place {
  const dir = tempDir(t);
  return {
    file(name, content) {
      const path = join(dir, name);
      writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
      return path;
    },
  };
}

function answerOf(ledger: MadeLedger, hash: string): object {
  return { status: 'verified', record_hash: hash, inclusion_proof: ledger.proofOf(hash) };
}

t.test('a record, its proof and the chain are checked offline, whatever form the files have', async (t) => {
  const { file } = place(t);
  const keys = file('keys.json', { data: LEDGER.keys });
  const whole = file('roots.json', { data: LEDGER.roots });
  const first = file('first.json', { data: LEDGER.roots.slice(0, 2) });
  const rest = file(
    'rest.ndjson',
    LEDGER.roots
      .slice(2)
      .map((root) => JSON.stringify(root))
      .join('\n'),
  );
  for (const [at, { text, hash }] of RECORDS.entries()) {
    const record = file('record.json', text);
    const proof = at % 2 === 0 ? file('proof.json', answerOf(LEDGER, hash)) : file('proof.json', LEDGER.proofOf(hash));
    const roots = at % 2 === 0 ? ['--roots', whole] : ['--roots', first, '--roots', rest];
    const { code, out, err } = await gw(['verify', record, '--proof', proof, '--keys', keys, ...roots, '--json']);
    t.equal(code, 0, err);
    t.match(JSON.parse(out), {
      verified: true,
      stored: hash,
      computed: hash,
      proof: { root: { org_id: 'acme', kid: 'ledger-1' } },
      chain: { org_id: 'acme', first: 1, last: 4 },
    });
  }
  const { out } = await gw([
    'verify',
    file('record.json', RECORDS[6]?.text),
    '--proof',
    file('proof.json', answerOf(LEDGER, HASHES[6] ?? '')),
    '--keys',
    keys,
  ]);
  t.match(
    out,
    /^verified {2}0197.*\n {2}record_hash {2}[0-9a-f]{64}\n {2}proof {8}leaf 0 of 3 in batch acme\/3\n {2}root {9}3 of acme, closed 2026-01-01T00:00:00.000Z, signed with ledger-1\n$/,
  );
  t.match(await gw(['verify', '--roots', whole, '--keys', keys]), {
    code: 0,
    out: /^verified {2}the chain of roots\n {2}chain {6}roots 1 to 4 of acme, without a gap\n {2}last root {2}[0-9a-f]{64}\n$/,
  });
  t.match(await gw(['verify', '--roots', rest, '--keys', keys]), {
    code: 0,
    out: /roots 3 to 4 of acme.*\n.*what was before root 3 is not shown/,
  });
});

t.test('a record that names another org than its ledger is verified, and both are told', async (t) => {
  const { file } = place(t);
  const { text, hash } = madeRecord({ record_id: '0197a0c0-0000-7000-8000-000000000099', org_id: 'elsewhere', decision: 'deny' });
  const ledger = makeLedger([[hash, ...HASHES]]);
  const proof = file('proof.json', answerOf(ledger, hash));
  const args = ['verify', file('record.json', text), '--proof', proof, '--keys', file('keys.json', { data: ledger.keys })];
  t.match(await gw(args), {
    code: 0,
    out: /^verified [\s\S]*\n {2}note +the record names the org elsewhere, and the ledger is that of acme: .*\n$/,
  });
  const said = JSON.parse((await gw([...args, '--json'])).out) as object;
  t.match(said, { verified: true, notes: [/elsewhere.*acme/] });
  const own = file('own.json', answerOf(LEDGER, HASHES[0] ?? ''));
  const plain = await gw([
    'verify',
    file('record.json', RECORDS[0]?.text),
    '--proof',
    own,
    '--keys',
    file('keys.json', { data: LEDGER.keys }),
    '--json',
  ]);
  t.notOk('notes' in (JSON.parse(plain.out) as object));
});

t.test('each thing that was tampered with is found, and it is said what does not fit', async (t) => {
  const { file } = place(t);
  const hash = HASHES[2] ?? '';
  const good = {
    record: RECORDS[2]?.text ?? '',
    proof: answerOf(LEDGER, hash) as unknown,
    keys: { data: LEDGER.keys } as unknown,
    roots: { data: LEDGER.roots } as unknown,
  };
  const { roots } = LEDGER;
  const otherKey = makeLedger(BATCHES, { seed: 8 });
  const rewritten = makeLedger([[sha256Hex('x')], ...BATCHES.slice(1)]);
  const otherOrg = makeLedger(BATCHES, { org: 'other' });
  const proofOf = (index: number) => answerOf(LEDGER, HASHES[index] ?? '');
  const changed: readonly (readonly [what: string, change: Partial<typeof good>, problem: RegExp])[] = [
    ['the record', { record: good.record.replace('"acme"', '"acne"') }, /record: its hash is .* and record_hash in it is/],
    ['record and hash', { record: madeRecord({ org_id: 'acne' }).text }, /proof: it is of another record/],
    ['proof of another leaf', { proof: proofOf(3) }, /proof: it is of another record/],
    ['answer about another hash', { proof: { ...answerOf(LEDGER, hash), record_hash: HASHES[3] } }, /of another record .* than its answer/],
    [
      'no proof yet',
      { proof: { status: 'pending_inclusion', record_hash: hash } },
      /pending_inclusion, so that no root stands for the record/,
    ],
    ['no answer at all', { proof: { error: { code: 'not_found' } } }, /neither an answer .* nor an inclusion proof/],
    [
      'the root in the proof',
      { proof: { ...LEDGER.proofOf(hash), root: { ...roots[0], root_hash: HASHES[4] } } },
      /does not lead to root_hash/,
    ],
    ['a root of a stranger', { proof: answerOf(otherKey, hash) }, /root 1: its signature does not fit/],
    ['a key of a stranger', { keys: { data: otherKey.keys } }, /root 1: its signature does not fit/],
    ['a key of another name', { keys: { data: makeLedger([], { kid: 'ledger-2' }).keys } }, /a key that is not known \(ledger-1\)/],
    ['no keys', { keys: { data: [] } }, /a key that is not known \(ledger-1\)/],
    ['what is no list of keys', { keys: LEDGER.keys }, /keys: it is no answer with a list/],
    ['a chain that was cut', { roots: { data: [roots[0], roots[2]] } }, /chain: root 3: root 2 should stand there/],
    ['a chain without the root', { roots: { data: roots.slice(1) } }, /root 1: that of the proof is not among the roots 2 to 4/],
    ['no chain', { roots: { data: [] } }, /chain: roots: there is none/],
    ['another history', { roots: { data: rewritten.roots } }, /chain: root 1: .* there are two histories/],
    ['a history that was rewritten', { roots: { data: [rewritten.roots[0], ...roots.slice(1)] } }, /chain: root/],
    [
      'a changed root in the chain',
      { roots: { data: [...roots.slice(0, 3), { ...roots[3], leaf_count: 9 }] } },
      /chain: root 4: its signature does not fit/,
    ],
    ['the chain of another org', { roots: { data: otherOrg.roots } }, /of another org/],
    ['what is no root', { roots: { data: [{}] } }, /chain: root: schema is not/],
  ];
  const run = async (files: typeof good, ...more: string[]) => {
    const options = [
      '--proof',
      file('proof.json', files.proof),
      '--keys',
      file('keys.json', files.keys),
      '--roots',
      file('roots.json', files.roots),
    ];
    return gw(['verify', file('record.json', files.record), ...options, ...more]);
  };
  t.match(await run(good), { code: 0, err: '' });
  for (const [what, change, problem] of changed) {
    t.match(await run({ ...good, ...change }), { code: 1, out: /^NOT VERIFIED/, err: '' }, what);
    const { code, out } = await run({ ...good, ...change }, '--json');
    t.equal(code, 1, what);
    const { verified, problems } = JSON.parse(out) as { verified: boolean; problems: string[] };
    t.equal(verified, false, what);
    t.match(problems.join('\n'), problem, what);
  }
});

t.test(
  'files that can be read in two ways, are too large or not there are unusable, and options that make no check are refused',
  async (t) => {
    const { file } = place(t);
    const record = file('record.json', RECORDS[0]?.text);
    const proof = file('proof.json', answerOf(LEDGER, HASHES[0] ?? ''));
    const keys = file('keys.json', { data: LEDGER.keys });
    const root = JSON.stringify(LEDGER.roots[0]);
    const odd: readonly (readonly [what: string, args: readonly string[], err: RegExp])[] = [
      [
        'twice the same name',
        [
          '--proof',
          file('twice.json', JSON.stringify(answerOf(LEDGER, HASHES[0] ?? '')).replace('"leaf_index":0', '"leaf_index":1,"leaf_index":0')),
          '--keys',
          keys,
        ],
        /twice\.json: it can be read in two ways: a name stands twice/,
      ],
      [
        'half a pair of surrogates',
        ['--roots', file('half.json', `{"data":[${root.replace('acme/1', '\\ud800')}]}`), '--keys', keys, '--proof', proof],
        /half\.json: .*surrogates/,
      ],
      ['too deep', ['--proof', file('deep.json', `${'['.repeat(99)}${']'.repeat(99)}`), '--keys', keys], /deeper than 64/],
      ['too large a number', ['--proof', file('large.json', '{"a":9007199254740993}'), '--keys', keys], /beyond 2\^53/],
      ['no JSON on a line', ['--roots', file('odd.ndjson', `${root}\n{`), '--keys', keys, '--proof', proof], /odd\.ndjson, line 2/],
      [
        'too long a line',
        ['--roots', file('long.ndjson', ' '.repeat(1_100_000)), '--keys', keys, '--proof', proof],
        /line 1: it is longer than/,
      ],
      ['no UTF-8', ['--proof', file('latin.json', 'x'), '--keys', keys], /not valid JSON/],
      ['no file', ['--proof', proof, '--keys', '/nonexistent/keys.json'], /keys\.json: there is no such file\n/],
      ['a folder', ['--proof', '/', '--keys', keys], /\/: it is a folder, not a file\n/],
    ];
    for (const [what, args, err] of odd) t.match(await gw(['verify', record, ...args]), { code: 2, out: '', err }, what);
    const folder = join(record, '..');
    t.match(await gw(['verify', folder]), { code: 2, err: /: it is a folder: gw verify .*\/records\.ndjson checks .* python3 check\.py/ });
    writeFileSync(file('huge.json', ''), Buffer.alloc(16 * 1024 * 1024 + 1, 0x20));
    t.match(await gw(['verify', join(record, '..', 'huge.json')]), { code: 2, err: /larger than 16777216 bytes/ });
    const wrong: readonly (readonly [args: readonly string[], err: RegExp])[] = [
      [[record, '--proof', proof], /--proof needs --keys/],
      [['--roots', proof], /--roots needs --keys/],
      [[record, '--keys', keys], /--keys needs --proof, --roots or --checkpoint/],
      [[record, '--keys', keys, '--roots', proof], /need --proof/],
      [['--proof', proof, '--keys', keys], /it takes one file/],
      [['--proof', proof, '--keys', keys, '--roots', proof], /--proof is of a record/],
      [[record, record], /one argument too many/],
      [[record, '--state', 'x'], /--state belongs to --watch/],
      [[record, '--from', 'x'], /--from belongs to --export/],
      [['--watch', 'http://127.0.0.1:1'], /--watch needs --state/],
      [['--watch', 'http://127.0.0.1:1', '--state', 'x', '--proof', 'y'], /--watch takes no --proof/],
      [['--watch', 'ftp://127.0.0.1', '--state', join(record, '..', 'none')], /the address of a control plane/],
      [['--watch', 'http://127.0.0.1:1', '--state', 'x', '--interval', 'soon'], /--interval takes a duration from 1s/],
      [[record, '--export', 'x'], /--export takes no file/],
    ];
    for (const [args, err] of wrong) t.match(await gw(['verify', ...args]), { code: 2, out: '', err }, args.join(' '));
  },
);

t.test('a watcher remembers the last root, and says when the history does not go on from there', async (t) => {
  const dir = tempDir(t);
  const state = join(dir, 'state.json');
  const site = await startLedgerSite(t, makeLedger(BATCHES.slice(0, 2)));
  site.page = 1;
  const watch = (...more: string[]) => gw(['verify', '--watch', `${site.url}/`, '--state', state, ...more]);
  t.match(await watch('--org', 'acme'), {
    code: 0,
    out: /^remembered {2}acme: roots 1 to 2, [0-9a-f]{64}\n {2}keys {6}ledger-1, trusted because they are listed\n$/,
  });
  t.match(await watch('--json'), { code: 0, out: /"verified":true,"from":2,"sequence":2/ });
  site.ledger = LEDGER;
  t.match(await watch(), { code: 0, out: /^goes on {5}acme: root 2 is what it was, 2 more/ });
  const kept = readFileSync(state, 'utf8');
  t.same(readdirSync(dir), ['state.json'], 'what is written beside it takes its place');
  const broken: readonly (readonly [what: string, ledger: MadeLedger | undefined, problem: RegExp])[] = [
    ['rewritten, as long as before', makeLedger([...BATCHES.slice(0, 3), [sha256Hex('x')]]), /root 4 was rewritten/],
    [
      'rewritten from the first on, and longer',
      makeLedger([[sha256Hex('x')], ...BATCHES.slice(1), [sha256Hex('y')]]),
      /root 4 was rewritten/,
    ],
    ['cut', makeLedger(BATCHES.slice(0, 3)), /ends before root 4, which was there: its history goes backward/],
    ['empty', makeLedger([]), /ends before root 4/],
    ['the org gone', undefined, /keys|no org acme any more/],
    [
      'its place taken',
      { ...LEDGER, roots: LEDGER.roots.map((root) => (root.sequence === 4 ? { ...root, sequence: 5 } : root)) },
      /root 4 is missing, and was there: root 5/,
    ],
    ['one left out behind it', behind((roots) => roots.slice(5)), /root 5 should stand there/],
    ['a root by a stranger', { ...behind((roots) => roots.slice(4)), keys: LEDGER.keys }, /root 5: its signature does not fit/],
    ['another key of the same name', makeLedger(BATCHES, { seed: 8 }), /key ledger-1 was replaced/],
    ['a root with a new key', withNewKey(), /root 5: it is signed with a key that is not known \(ledger-2\)/],
  ];
  for (const [what, ledger, problem] of broken) {
    site.ledger = ledger;
    t.match(await watch(), { code: 1, out: /^BROKEN {2}acme: .*\n {2}remembered {2}root 4, / }, what);
    const { code, out } = await watch('--json');
    t.equal(code, 1);
    t.match((JSON.parse(out) as { problems: string[] }).problems.join(), problem, what);
    t.equal(readFileSync(state, 'utf8'), kept, 'what does not fit is not remembered');
  }
  const keys = join(dir, 'keys.json');
  site.ledger = withNewKey();
  writeFileSync(keys, JSON.stringify({ data: site.ledger.keys }));
  t.match(await watch('--keys', keys), { code: 0, out: /root 4 is what it was, 1 more/ }, 'somebody says that the new key is right');
  t.match(await watch(), { code: 0, out: /root 5 is what it was, 0 more/ }, 'and it is believed from then on');
  t.match(await watch('--org', 'other'), { code: 2, err: /remembers the org acme/ });
});

// Holds: roots-by-the-key-of-their-time
t.test('a watcher takes over a key that the one before it endorses, and refuses what a retired one signs', async (t) => {
  const { file } = place(t);
  const site = await startLedgerSite(t, LEDGER);
  const state = join(tempDir(t), 'state.json');
  const watch = () => gw(['verify', '--watch', site.url, '--state', state, '--org', 'acme']);
  t.match(await watch(), { code: 0, out: /roots 1 to 4/ });
  const from = '2026-02-01T00:00:00.000Z';
  const keyed = withNewKey();
  const [former, next] = keyed.keys as readonly [ListedKey, ListedKey];
  const endorsed = { ...next, not_before: from };
  const keys = [
    { ...former, not_after: from },
    { ...endorsed, endorsed_by: endorse(endorsed, { kid: former.kid, key: ledgerKey(7) }) },
  ];
  const { sig: _sig, ...fifth } = keyed.roots[4] as MerkleRoot;
  const early = resigned(fifth);
  site.ledger = { ...keyed, keys, roots: [...LEDGER.roots, early] };
  t.match(await watch(), { code: 1, out: /BROKEN.*root 5: it was closed at .*, and its key \(ledger-2\) signs from 2026-02-01/ });
  const own = resigned({ ...fifth, closed_at: from });
  site.ledger = { ...keyed, keys, roots: [...LEDGER.roots, own] };
  t.match(await watch(), { code: 0, out: /root 4 is what it was, 1 more/ }, 'nobody has to say that it is right');
  for (const [closed_at, problem] of [
    ['2026-03-01T00:00:00.000Z', /root 6: it was closed at .*, and its key \(ledger-1\) was retired/],
    ['2026-01-01T00:00:00.000Z', /root 6: its key \(ledger-1\) was retired at .*, and a root before it/],
  ] as const) {
    const late = { ...fifth, sequence: 6, batch_id: 'acme/6', prev_root_hash: rootDigest(own), closed_at };
    const { tree_size: _size, tree_hash: _hash, ...treeless } = late;
    site.ledger = { ...keyed, keys, roots: [...LEDGER.roots, own, signRoot(treeless, 'ledger-1', ledgerKey(7))] };
    t.match(await watch(), { code: 1, out: problem });
  }
  const [list, chain] = [file('keys.json', { data: keys }), file('roots.json', { data: [...LEDGER.roots, early] })];
  t.match(await gw(['verify', '--roots', chain, '--keys', list]), { code: 1, out: /signs from 2026-02-01/ }, 'offline it is the same');
});

t.test('a watcher asks for the proof that the tree goes on, and believes no other', async (t) => {
  const dir = tempDir(t);
  const state = join(dir, 'state.json');
  const old = makeLedger(BATCHES, { treesFrom: 9 });
  const site = await startLedgerSite(t, { ...old, roots: old.roots.slice(0, 1) });
  const watch = () => gw(['verify', '--watch', site.url, '--state', state, '--org', 'acme']);
  t.match(await watch(), { code: 0, out: /roots 1 to 1/ });
  const { leaves: _leaves, ...before } = JSON.parse(readFileSync(state, 'utf8')) as { leaves: number };
  writeFileSync(state, JSON.stringify(before), 'utf8');
  const upTo = (ledger: MadeLedger, length: number): MadeLedger => ({ ...ledger, roots: ledger.roots.slice(0, length) });
  const trees = makeLedger([...BATCHES, [sha256Hex('y')]], { treesFrom: 2 });
  site.ledger = upTo(trees, 2);
  t.match(await watch(), { code: 0, out: /goes on .*1 more.*\n$/ }, 'a state of before goes on, and there is no older tree');
  site.ledger = upTo(trees, 3);
  t.match(await watch(), { code: 0, out: /\n {2}tree {6}9 hashes; the first 6 are those of root 2\n$/ });
  t.same(
    site.asked.filter((path) => path.includes('consistency')),
    ['/v1/orgs/acme/consistency?first=2&second=3'],
  );
  const kept = readFileSync(state, 'utf8');
  const path = (trees.consistencyOf(3, 5)?.path ?? []).toReversed();
  const wrong: readonly (readonly [consistencyOf: MadeLedger['consistencyOf'], problem: RegExp])[] = [
    [() => undefined, /shows no proof that the tree of root 5 goes on from that of root 3/],
    [(first) => trees.consistencyOf(first, 4), /consistency: second is root 4, not root 5/],
    [
      (first, second) => ({ ...(trees.consistencyOf(first, second) as ConsistencyProof), path }),
      /does not lead to the tree_hash of root 3/,
    ],
  ];
  for (const [consistencyOf, problem] of wrong) {
    site.ledger = { ...trees, consistencyOf };
    t.match(await watch(), { code: 1, out: problem });
    t.equal(readFileSync(state, 'utf8'), kept, 'what is not proved is not remembered');
  }
  site.ledger = trees;
  t.match(await watch(), { code: 0, out: /goes on .*2 more/ });
});

t.test('a consistency proof is checked offline, also where the roots between are left out', async (t) => {
  const { file } = place(t);
  const ledger = makeLedger([...BATCHES, ...BATCHES.map((batch, at) => [...batch.keys()].map((key) => sha256Hex(`${at}/${key}`)))], {
    treesFrom: 2,
  });
  const keys = ['--keys', file('keys.json', { data: ledger.keys })];
  const chain = file('roots.json', { data: ledger.roots });
  const ends = file('ends.json', { data: [ledger.roots[2], ledger.roots[7]] });
  const good = ledger.consistencyOf(3, 8) as ConsistencyProof;
  const check = (proof: unknown, roots: string, ...more: string[]) =>
    gw(['verify', '--consistency', file('consistency.json', proof), '--roots', roots, ...keys, ...more]);
  t.match(await check(good, chain), {
    code: 0,
    out: /roots 1 to 8 of acme, without a gap\n[\s\S]* {2}tree +root 8 has 24 hashes, of which the first 9 are those of root 3\n$/,
  });
  t.match(await check(good, ends), { code: 0, out: /roots 3 to 8 of acme, those between 3 and 8 left out\n/ });
  t.match(JSON.parse((await check(good, ends, '--json')).out), {
    verified: true,
    consistency: { first: { sequence: 3, tree_size: 9 }, second: { sequence: 8, tree_size: 24 } },
  });
  const other = makeLedger([[sha256Hex('x'), ...HASHES.slice(1, 5)], ...BATCHES.slice(1)]);
  const rewritten = file('rewritten.json', { data: [other.roots[2], ledger.roots[7]] });
  const wrong: readonly (readonly [proof: unknown, roots: string, problem: RegExp])[] = [
    [{ ...good, path: good.path.slice(1) }, chain, /the path from root 3 to root 8 is not that of a tree of 9 leaves and one of 24/],
    [{ ...good, path: good.path.toReversed() }, ends, /does not lead to the tree_hash/],
    [{ ...good, first: { ...good.first, tree_size: 8 } }, chain, /first has another tree than root 3 signs/],
    [good, rewritten, /first has another tree than root 3 signs/],
    [{ ...good, first: other.consistencyOf(3, 3)?.first }, rewritten, /does not lead to the tree_hash of root 3: its leaves were changed/],
    [{ ...good, first: { ...good.first, sequence: 1 } }, chain, /root 1 was signed before roots had a tree/],
    [good, file('few.json', { data: ledger.roots.slice(0, 5) }), /root 8 is not among the roots/],
    [ledger.consistencyOf(3, 5), ends, /root 8: root 4 should stand there/],
    [{}, chain, /consistency: path is not a list/],
  ];
  for (const [proof, roots, problem] of wrong) t.match(await check(proof, roots), { code: 1, out: problem });
  t.match(await gw(['verify', '--consistency', chain, ...keys]), { code: 2, err: /--consistency needs --roots/ });
});

function behind(choose: (roots: MadeLedger['roots']) => MadeLedger['roots']): MadeLedger {
  const stranger = makeLedger([...BATCHES, [sha256Hex('y')], [sha256Hex('z')]], { seed: 8 });
  const own = makeLedger([...BATCHES, [sha256Hex('y')], [sha256Hex('z')]]);
  const later = choose(own.roots);
  return { ...LEDGER, roots: [...LEDGER.roots, ...(later.length === 1 ? later : choose(stranger.roots))] };
}

function withNewKey(): MadeLedger {
  const next = makeLedger([...BATCHES, [sha256Hex('y')]], { kid: 'ledger-2', seed: 9 });
  const [last] = next.roots.slice(-1);
  if (last === undefined) throw new Error('no root');
  const { sig: _sig, ...unsigned } = last;
  return {
    ...LEDGER,
    keys: [...LEDGER.keys, ...next.keys],
    roots: [...LEDGER.roots, resigned({ ...unsigned, prev_root_hash: rootDigest(LEDGER.roots[3] as MerkleRoot) })],
    consistencyOf: next.consistencyOf,
  };
}

function resigned(root: UnsignedRoot): MerkleRoot {
  return signRoot(root, 'ledger-2', ledgerKey(9));
}

t.test('a state that is damaged is refused with what to do, and what cannot be asked is no finding', async (t) => {
  const { file } = place(t);
  const site = await startLedgerSite(t, LEDGER);
  const good = { schema: 'gw.ledger_watch.v1', org_id: 'acme', sequence: 0, digest: '0'.repeat(64), keys: LEDGER.keys };
  const damaged: readonly unknown[] = [
    '',
    '{',
    { ...good, schema: 'x' },
    { ...good, sequence: 3 },
    { ...good, digest: 'x' },
    { ...good, keys: 'x' },
    { ...good, keys: [...LEDGER.keys, ...LEDGER.keys] },
    JSON.stringify(good).replace('"sequence":0', '"sequence":1,"sequence":0'),
  ];
  for (const content of damaged) {
    const state = file('state.json', content);
    t.match(
      await gw(['verify', '--watch', site.url, '--state', state]),
      { code: 2, out: '', err: /state\.json is damaged \(.*\)\. Bring it back from a copy; or move it away/ },
      JSON.stringify(content),
    );
  }
  const state = file('good.json', good);
  t.match(await gw(['verify', '--watch', site.url, '--state', state]), { code: 0, out: /^remembered {2}acme: roots 1 to 4/ });
  for (const [answer, err] of [
    [{ status: 500, text: 'oops' }, /answered 500/],
    [{ status: 200, text: '<html>' }, /is it a control plane/],
    [{ status: 200, text: '{"data":[],"data":[]}' }, /can be read in two ways/],
  ] as const) {
    site.answer = answer;
    const { code, out, err: said } = await gw(['verify', '--watch', site.url, '--state', state]);
    t.notSame(code, 0);
    t.match({ out, said }, { out: '', said: err });
  }
  t.match(await gw(['verify', '--watch', 'http://127.0.0.1:1', '--state', state]), { code: 2, err: /cannot be asked/ });
  site.answer = undefined;
  t.match(await gw(['verify', '--watch', site.url, '--state', file('org.json', { ...good, org_id: 'other' })]), {
    code: 2,
    err: /has no org other/,
  });
  t.match(await gw(['verify', '--watch', site.url, '--state', '/nonexistent/state.json', '--org', 'acme']), {
    code: 2,
    err: /cannot be written/,
  });
  t.match(
    await gw([
      'verify',
      '--watch',
      site.url,
      '--state',
      join(state, '..', 'pinned.json'),
      '--org',
      'acme',
      '--keys',
      file('none.json', { data: [] }),
    ]),
    { code: 2, err: /no ledger key/ },
  );
});

t.test('with an interval it goes on until it is stopped, and over a control plane that is away', async (t) => {
  const site = await startLedgerSite(t, makeLedger(BATCHES.slice(0, 1)));
  const state = join(tempDir(t), 'state.json');
  const start = () =>
    launch(t, process.execPath, [MAIN, 'verify', '--watch', site.url, '--state', state, '--org', 'acme', '--interval', '1s', '--json']);
  const watcher = start();
  await eventually('the first look', () => watcher.stdout.includes('"sequence":1') || undefined);
  site.answer = { status: 503, text: '{}' };
  await eventually('that it asks again', () => watcher.stderr.includes('asking again') || undefined);
  site.answer = undefined;
  site.ledger = LEDGER;
  await eventually('the roots that have come', () => watcher.stdout.includes('"sequence":4') || undefined);
  watcher.kill('SIGTERM');
  t.equal((await watcher.ended).code, 0);
  const other = start();
  await eventually('another look', () => other.stdout.includes('"from":4') || undefined);
  site.ledger = makeLedger(BATCHES.slice(0, 2));
  t.equal((await other.ended).code, 1);
  t.match(other.stdout, /"verified":false.*goes backward/);
});

t.test('an export asks for what is of roots before the roots, and for the keys last, since the ledger goes on meanwhile', async (t) => {
  const site = await startLedgerSite(t, LEDGER);
  const gateway = createServer((_request, response) => response.writeHead(200, { 'content-type': 'application/json' }).end('{"data":[]}'));
  await new Promise<void>((resolve) => gateway.listen(0, '127.0.0.1', resolve));
  t.teardown(() => new Promise((resolve) => gateway.close(resolve)));
  const folder = join(tempDir(t), 'evidence');
  const url = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}`;
  const args = ['verify', '--export', folder, '--gateway', url, '--control-plane', site.url, '--org', 'acme'];
  const done = await gw([...args, '--key', `mgk_${'a'.repeat(43)}`]);
  t.equal(done.code, 0, done.err);
  const kinds = site.asked.map((path) => path.replace(/^.*\/([\w-]+)(\?.*)?$/, '$1'));
  t.same([...new Set(kinds)], ['timestamps', 'log-entries', 'checkpoint', 'roots', 'consistency', 'keys']);
  t.equal(kinds.indexOf('keys'), kinds.length - 1);
  t.ok(kinds.lastIndexOf('checkpoint') < kinds.indexOf('roots'));
  t.same(JSON.parse(readFileSync(join(folder, 'keys.json'), 'utf8')), { data: LEDGER.keys });
});
