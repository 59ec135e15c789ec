// Witnesses cosign the checkpoints of a control plane, and nothing that does not go on from what they cosigned before.
import { createPublicKey, randomBytes, sign } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { CosignedTrees } from '../../src/cli/verify/cosigned-trees.ts';
import { signCheckpoint } from '../../src/ledger/checkpoint.ts';
import { cosign, cosignersOf } from '../../src/ledger/cosignature.ts';
import { type ListedKey, listedKey } from '../../src/ledger/ledger-answers.ts';
import type { MerkleRoot } from '../../src/ledger/merkle-root.ts';
import { NOTE_TYPE, noteKey, readNote, readNoteKey } from '../../src/ledger/signed-note.ts';
import { eventually } from '../support/child.ts';
import { PROTOCOL, runControlPlane, TIMEOUT_MS } from '../support/control-plane.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { type LedgerSite, ledgerKey, type MadeLedger, makeLedger, startLedgerSite } from '../support/made-ledger.ts';
import { gw } from '../support/run-gw.ts';
import { tempDir } from '../support/temp-dir.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/** A witness as the command makes one. */
async function newWitness(dir: string, name: string): Promise<{ readonly file: string; readonly vkey: string }> {
  const file = join(dir, `${name.replace('/', '-')}.pem`);
  const { code, out, err } = await gw(['verify', '--witness-key', file, '--name', name]);
  if (code !== 0) throw new Error(err);
  return { file, vkey: out.trim().replace('CP_WITNESS_KEYS=', '') };
}

/**
 * A control plane with an org, whose ledger grows by one root at a time.
 * @param ahead of the clock of witnesses, which is the machine's: a busy one may take minutes for a test, and what is
 * too far in the future is not taken
 */
async function growing(t: Test, settings: Parameters<typeof runControlPlane>[2], ahead = HOUR_MS) {
  const clock = fakeClock(Date.now());
  const started = await runControlPlane(t, { clock }, { ledgerName: 'ledger.example.com', checkpointInterval: MINUTE_MS, ...settings });
  const { client } = await started.enrol('acme', 'node-1');
  clock.advance(ahead);
  const base = `http://127.0.0.1:${started.plane.httpPort}`;
  const ask = async (path: string, body?: object) => {
    const answer = await fetch(`${base}/v1/${path}`, body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) });
    return { status: answer.status, text: await answer.text() };
  };
  const roots = async () => (JSON.parse((await ask('orgs/acme/roots')).text) as { data: readonly MerkleRoot[] }).data;
  const grow = async (): Promise<void> => {
    const before = (await roots()).length;
    await client.call(PROTOCOL.controlPlane, 'SubmitHashes', { hashes: [randomBytes(32)] }, TIMEOUT_MS);
    clock.advance(1_000);
    await eventually('a root', async () => (await roots()).length > before || undefined);
  };
  return { ...started, clock, base, ask, roots, grow };
}

t.test('two witnesses cosign one checkpoint, it is kept with them, and who verifies it counts them', async (t) => {
  const dir = tempDir(t);
  const [one, two, third] = await Promise.all(
    ['w1.example.com', 'w2.example.com/b', 'w3.example.com'].map((name) => newWitness(dir, name)),
  );
  if (one === undefined || two === undefined || third === undefined) throw new Error('no witness');
  const settings = { witnessKeys: [one.vkey, two.vkey] };
  const { plane, dataDir, clock, base, ask, roots, grow } = await growing(t, settings);
  const watch = ({ file }: { file: string }, name: string) =>
    gw(['verify', '--watch', base, '--state', `${file}.state`, '--org', 'acme', '--cosign', file, '--name', name]);
  const published = async (query = '') => (await ask(`orgs/acme/checkpoint${query}`)).text;

  t.match(await ask('orgs/acme/checkpoint'), { status: 404 });
  t.match(await watch(one, 'w1.example.com'), { code: 0 }, 'a witness of a ledger without a root waits');
  await grow();
  const [root] = await roots();
  const first = readNote(await published());
  t.equal(first.text, `ledger.example.com/orgs/acme\n1\n${Buffer.from(root?.tree_hash ?? '', 'hex').toString('base64')}\n`);
  const { data: keys } = JSON.parse((await ask('keys?org=acme')).text) as { data: readonly { use: string; vkey?: string }[] };
  const log = readNoteKey(keys.find(({ use }) => use === 'ledger')?.vkey ?? '', NOTE_TYPE.ed25519);
  t.match(first.signatures, [{ name: 'ledger.example.com/orgs/acme', keyId: log.keyId }], 'the verifier key is that of the signature');
  t.notOk(keys.some(({ use, vkey }) => use === 'bundle' && vkey !== undefined));

  t.match(await watch(one, 'w1.example.com'), { code: 0, out: /\n {2}cosigned {2}1 hashes of ledger\.example\.com\/orgs\/acme, root 1\n/ });
  const once = await published();
  t.match(await watch(one, 'w1.example.com'), { code: 0 });
  t.equal(await published(), once, 'what is cosigned is not cosigned again');
  await grow();
  t.match(await watch(two, 'w2.example.com/b'), { code: 0, out: /root 1\n/ }, 'all cosign the same one in an interval');
  const witnesses = [one, two].map(({ vkey }) => readNoteKey(vkey, NOTE_TYPE.cosignature));
  const cosigners = cosignersOf({ note: readNote(await published()) }, witnesses);
  t.same(
    cosigners.map(({ witness }) => witness),
    ['w1.example.com', 'w2.example.com/b'],
  );
  clock.advance(MINUTE_MS);
  t.match(await published(), /^ledger\.example\.com\/orgs\/acme\n2\n/, 'the next one is published');
  t.match(await published('?cosigned=2'), /\n1\n.*\n\n— .*\n— w1.* .*\n— w2.* .*\n$/, 'the newest that two have cosigned');
  t.match(await ask('orgs/acme/checkpoint?cosigned=3'), { status: 404 });
  t.match(await published('?sequence=2'), /acme\n2\n/);
  t.match(await ask('orgs/acme/checkpoint?sequence=9'), { status: 404 });
  t.match(await watch(one, 'w1.example.com'), { code: 0, out: /2 hashes of .*, root 2\n/ });
  t.match(JSON.parse((await ask('orgs/acme/checkpoints')).text), {
    data: [{ sequence: 1, cosignatures: [{ witness: 'w1.example.com' }, { witness: 'w2.example.com/b' }] }, { sequence: 2 }],
  });
  const metrics = await (await fetch(`${base}/metrics`)).text();
  t.match(metrics, /^cp_cosignatures_total\{witness="w1\.example\.com"\} 2$/m);
  t.match(metrics, /^cp_cosignatures_total\{witness="w2\.example\.com\/b"\} 1$/m);
  t.match(metrics, /^cp_cosignature_last_timestamp_seconds\{witness="w1\.example\.com"\} 1\d{9}$/m);

  const file = (name: string, content: string) => {
    writeFileSync(join(dir, name), content);
    return join(dir, name);
  };
  const both = await published('?cosigned=2');
  const args = ['verify', '--checkpoint', file('checkpoint.txt', both), '--keys', file('keys.json', (await ask('keys')).text)];
  const trusted = ['--witness-keys', file('witnesses', `# ours\n${one.vkey}\n\n${two.vkey}\n${third.vkey}\n`)];
  t.match(await gw([...args, ...trusted, '--witnesses', '2']), {
    code: 0,
    out: /^verified {2}the checkpoint\n.*1 hashes of ledger\.example\.com\/orgs\/acme, signed with ledger-[\s\S]*cosigned +by w1\.example\.com at 20.*Z\n.*by w2/,
  });
  t.match(await gw([...args, ...trusted, '--witnesses', '3']), { code: 1, out: /2 of the 3 witnesses have cosigned it, and 3 must have/ });
  t.match(await gw([...args, '--witness-keys', file('stranger', third.vkey)]), { code: 1, out: /0 of the 1 witnesses/ });
  t.match(await gw(args), { code: 0, out: /signed with/ }, 'without witnesses it is the word of the log alone');
  const rootsFile = file('roots.json', (await ask('orgs/acme/roots')).text);
  const { code, out } = await gw([...args, ...trusted, '--roots', rootsFile, '--json']);
  t.match(
    { code, json: JSON.parse(out) },
    { code: 0, json: { checkpoint: { tree_size: 1, cosigners: [{ witness: 'w1.example.com' }, {}] } } },
  );
  const later = file('later.json', (await ask('orgs/acme/roots?after=1')).text);
  t.match(await gw([...args, '--roots', later]), { code: 1, out: /no root that was given has the tree of 1 hashes/ });
  const spoiled = file('spoiled.txt', both.replace('acme\n1\n', 'acme\n3\n'));
  t.match(await gw(['verify', '--checkpoint', spoiled, ...args.slice(3)]), { code: 1, out: /the signature of its log does not fit/ });
  for (const [more, err] of [
    [['--witnesses', '0', ...trusted], /--witnesses takes a number from 1 to 99/],
    [['--witnesses', '2'], /--witnesses needs --witness-keys/],
    [['--witness-keys', file('bad', 'w+00000000+AAAA')], /bad: the verifier key of w is of type 0/],
    [['--witness-keys', file('twice', `${one.vkey}\n${one.vkey}`)], /a key stands in it twice/],
  ] as const)
    t.match(await gw([...args, ...more]), { code: 2, err });
  t.match(await gw(args.slice(0, 3)), { code: 2, err: /--checkpoint needs --keys/ });

  await plane.stop();
  const again = await runControlPlane(t, { clock }, { dataDir, ledgerName: 'renamed.example.com', ...settings });
  const kept = await fetch(`http://127.0.0.1:${again.plane.httpPort}/v1/orgs/acme/checkpoint?cosigned=2`);
  t.equal(await kept.text(), both, 'a restart loses nothing, nor does another name');
});

t.test('a ledger whose key is followed by another is the same log to its witnesses', async (t) => {
  const dir = tempDir(t);
  const { file, vkey } = await newWitness(dir, 'w.example.com');
  // Without a name the ledger is called by its first key.
  const settings = { ledgerName: undefined, witnessKeys: [vkey] };
  // No later: by the clock of who verifies, the next key has begun.
  const { plane, commit, clock, base, ask, grow } = await growing(t, settings, 3 * MINUTE_MS);
  const watch = () =>
    gw(['verify', '--watch', base, '--state', `${file}.state`, '--org', 'acme', '--cosign', file, '--name', 'w.example.com']);
  await grow();
  t.match(await watch(), { code: 0, out: /root 1\n/ });
  const before = (await ask('orgs/acme/checkpoint')).text;
  await plane.state.rotations.rotate('ledger', clock.now(), commit);
  await grow();
  clock.advance(MINUTE_MS);
  t.match(await watch(), { code: 0, out: /root 2\n/ }, 'the witness believes the key that the first one endorses');
  const after = (await ask('orgs/acme/checkpoint')).text;
  t.equal(after.split('\n')[0], before.split('\n')[0], 'the origin stays');
  t.match(after, /\n— w\.example\.com /);
  const { data } = JSON.parse((await ask('keys?org=acme')).text) as { data: readonly { use: string; state: string; vkey?: string }[] };
  const keyIdOf = (state: string) =>
    readNoteKey(data.find((key) => key.use === 'ledger' && key.state === state)?.vkey ?? '', NOTE_TYPE.ed25519).keyId;
  t.equal(readNote(before).signatures[0]?.keyId, keyIdOf('former'));
  t.equal(readNote(after).signatures[0]?.keyId, keyIdOf('current'), 'and the key is the one whose turn it is');
  const kept = join(dir, 'keys.json');
  writeFileSync(kept, (await ask('keys')).text);
  for (const [name, text] of Object.entries({ before, after })) {
    writeFileSync(join(dir, name), text);
    t.match(await gw(['verify', '--checkpoint', join(dir, name), '--keys', kept]), { code: 0 }, name);
  }
});

t.test('a cosignature is taken from a known witness alone, of what was published', async (t) => {
  const key = ledgerKey(41);
  const publicKey = Buffer.from(listedKey('w', 'ledger', createPublicKey(key)).public_key, 'base64');
  const witness = noteKey('w.example.com', NOTE_TYPE.cosignature, publicKey);
  const { clock, ask, grow } = await growing(t, { witnessKeys: [witness.vkey] });
  await grow();
  const { text } = readNote((await ask('orgs/acme/checkpoint')).text);
  const now = Math.floor(clock.now() / 1_000);
  const made = (seconds = now, by = witness, signer = key, over = text) =>
    cosign(over, by, seconds, (message) => sign(undefined, message, signer));
  const hand = (cosignature: string, sequence = 1) => ask('orgs/acme/cosignatures', { sequence, cosignature });
  const stranger = noteKey('s.example.com', NOTE_TYPE.cosignature, publicKey);
  for (const [what, line, message] of [
    ['a stranger', made(now, stranger), /of no witness that is known/],
    ['another key', made(now, witness, ledgerKey(42)), /does not fit/],
    ['another text', made(now, witness, key, text.replace('\n1\n', '\n2\n')), /does not fit/],
    ['the future', made(now + 301), /its time is in the future/],
    ['no line', 'hello', /a line of its signatures is none/],
  ] as const) {
    const { status, text: said } = await hand(line);
    t.equal(status, 400, what);
    t.match(JSON.parse(said), { error: { details: [{ path: 'cosignature', message }] } }, what);
  }
  t.match(await hand(made(), 2), { status: 404 }, 'a root that is not there');
  t.match(await hand(made(now - 10)), { status: 200 });
  const newest = made();
  t.match(await hand(newest), { status: 200 });
  t.match(await hand(made(now - 10)), { status: 200 });
  t.equal(readNote((await ask('orgs/acme/checkpoint')).text).signatures.at(-1)?.line, newest, 'the newest of a witness stands, alone');
  t.equal(readNote((await ask('orgs/acme/checkpoint')).text).signatures.length, 2);
  await Promise.all([1, 2, 3, 4].map((later) => hand(made(now + later))));
  t.equal(readNote((await ask('orgs/acme/checkpoint')).text).signatures.at(-1)?.line, made(now + 4), 'also of those that come at once');
  t.match(await ask('orgs/nobody/cosignatures', { sequence: 1, cosignature: newest }), { status: 404 });
});

t.test('checkpoints that nobody cosigned make room, one that a witness has under way stays', async (t) => {
  const { clock, ask, grow } = await growing(t, {});
  for (let count = 0; count < 4; count++) {
    await grow();
    await ask('orgs/acme/checkpoint');
    clock.advance(MINUTE_MS);
  }
  const { data } = JSON.parse((await ask('orgs/acme/checkpoints')).text) as { data: readonly { sequence: number }[] };
  t.same(
    data.map(({ sequence }) => sequence),
    [3, 4],
  );
});

interface WitnessPlace {
  readonly site: LedgerSite;
  readonly ledger: MadeLedger;
  readonly state: string;
  /** Of its private key. */
  readonly file: string;
  readonly publish: (sequence: number, of?: MadeLedger, seed?: number, origin?: string) => void;
  readonly watch: (...more: readonly string[]) => ReturnType<typeof gw>;
}

const BATCHES = [['11'.repeat(32)], ['22'.repeat(32), '33'.repeat(32)], ['44'.repeat(32)], ['55'.repeat(32)]];

async function witnessOf(t: Test): Promise<WitnessPlace> {
  const dir = tempDir(t);
  const ledger = makeLedger(BATCHES);
  const site = await startLedgerSite(t, ledger);
  const state = join(dir, 'state.json');
  const { file } = await newWitness(dir, 'w.example.com');
  const publish: WitnessPlace['publish'] = (sequence, of = ledger, seed = 7, origin = 'log.example.com/orgs/acme') => {
    const { tree_size = 0, tree_hash = '' } = of.roots[sequence - 1] ?? {};
    const key = ledgerKey(seed);
    const listed = listedKey('ledger-1', 'ledger', createPublicKey(key));
    site.checkpoint = { sequence, checkpoint: signCheckpoint(origin, { tree_size, tree_hash }, { key, listed }) };
  };
  const watch = (...more: readonly string[]) =>
    gw(['verify', '--watch', site.url, '--state', state, '--org', 'acme', '--cosign', file, ...more]);
  return { site, ledger, state, file, publish, watch };
}

t.test('a witness cosigns nothing that does not go on from what it cosigned', async (t) => {
  const { site, ledger, state, publish, watch } = await witnessOf(t);
  publish(2);
  t.match(await watch(), { code: 0, out: /cosigned {2}3 hashes of log\.example\.com\/orgs\/acme, root 2/ });
  t.equal(site.handedIn.length, 1);
  const remembered = () => JSON.parse(readFileSync(state, 'utf8')) as object;
  const kept = remembered();
  t.match(kept, { cosigned: { origin: 'log.example.com/orgs/acme', sequence: 2, tree_size: 3 } });
  const cases: readonly (readonly [what: string, publish: () => void, message: RegExp])[] = [
    ['a rollback', () => publish(1), /BROKEN.*the log goes backward/],
    [
      'another tree of the same size',
      () => publish(2, makeLedger([...BATCHES.slice(0, 1), ['66'.repeat(32), '77'.repeat(32)]])),
      /two trees/,
    ],
    ['a fork', () => publish(3, FORK), /BROKEN.*consistency: second has another tree/],
    ['a root that is not shown', () => publish(5, makeLedger([...BATCHES, ['88'.repeat(32)]])), /which the ledger does not show/],
    ['another key', () => publish(3, ledger, 8), /no key that is known has signed it/],
    ['another name', () => publish(3, ledger, 7, 'other.example.com/orgs/acme'), /the log is called other\.example\.com/],
  ];
  for (const [what, change, message] of cases) {
    change();
    t.match(await watch(), { code: 1, out: message }, what);
    t.same(remembered(), kept, `${what}: the state stays`);
  }
  t.equal(site.handedIn.length, 1, 'nothing was signed');
  site.ledger = {
    ...ledger,
    consistencyOf: (first, second) => (first === 2 && second === 3 ? undefined : ledger.consistencyOf(first, second)),
  };
  publish(3);
  t.match(await watch(), { code: 1, out: /shows no proof that the tree of root 3 goes on from that of root 2/ });
  site.ledger = ledger;
  t.match(await watch(), { code: 0, out: /cosigned {2}4 hashes of .* root 3/ });
  t.equal(site.handedIn.length, 2);
});

t.test('what is cosigned is remembered before it is handed in, and handed in again until it is taken', async (t) => {
  const { site, state, file, publish, watch } = await witnessOf(t);
  publish(1);
  site.takes = 503;
  t.match(await watch(), { code: 2, err: /does not take the cosignature of witness-[0-9a-f]+: .*answered 503/ });
  t.match(JSON.parse(readFileSync(state, 'utf8')), { cosigned: { sequence: 1 } });
  site.takes = 200;
  t.match(await watch(), { code: 0 });
  t.equal(site.handedIn.length, 2);
  const { sequence, cosignature } = JSON.parse(site.handedIn[1] ?? '') as { sequence: number; cosignature: string };
  t.match({ sequence, cosignature }, { sequence: 1, cosignature: /^— witness-[0-9a-f]{12} / }, 'without a name it is called by its key');

  const [entry = '', ...more] = readdirSync(`${file}.cosigned`);
  t.same(more, [], 'one history has one entry, and nothing else is left');
  t.match(JSON.parse(readFileSync(join(`${file}.cosigned`, entry), 'utf8')), { origin: 'log.example.com/orgs/acme', sequence: 1 });
  t.notOk(readdirSync(join(state, '..')).some((name) => name.endsWith('.next')));
  writeFileSync(state, readFileSync(state, 'utf8').replace('"origin"', '"origins"'));
  t.match(await watch(), { code: 2, err: /is damaged \(state: cosigned: origin/ });
});

const FORK = makeLedger([...BATCHES.slice(0, 2), ['66'.repeat(32)], ['77'.repeat(32)]]);

t.test('a key signs one history of one log, whatever states and control planes it is used with', async (t) => {
  const { site, ledger, state, file, publish, watch } = await witnessOf(t);
  publish(2);
  t.match(await watch(), { code: 0 });
  publish(3);
  t.match(await watch(), { code: 0, out: /root 3\n/ });

  const foreign = await startLedgerSite(t, makeLedger([['66'.repeat(32)], ['77'.repeat(32)]], { org: 'beta' }), 'beta');
  const forked = await startLedgerSite(t, FORK);
  const show = (of: LedgerSite, sequence: number, org = 'acme') => {
    const { tree_size = 0, tree_hash = '' } = of.ledger?.roots[sequence - 1] ?? {};
    const key = ledgerKey(7);
    const by = { key, listed: listedKey('ledger-1', 'ledger', createPublicKey(key)) };
    of.checkpoint = { sequence, checkpoint: signCheckpoint(`log.example.com/orgs/${org}`, { tree_size, tree_hash }, by) };
  };
  const elsewhere = (of: LedgerSite, org: string, name: string) =>
    gw(['verify', '--watch', of.url, '--state', `${state}.${name}`, '--org', org, '--cosign', file]);
  for (const origin of ['acme', 'x-beta', 'beta/orgs/acme']) {
    show(foreign, 1, origin);
    const said = await elsewhere(foreign, 'beta', 'beta');
    t.match(said, { code: 1, out: /is no name of the log of the org beta/ }, `the ledger of another org as ${origin}`);
  }
  show(foreign, 1, 'beta');
  t.match(await elsewhere(foreign, 'beta', 'beta'), { code: 0 }, 'one key is good for several orgs');
  t.equal(foreign.handedIn.length, 1);
  for (const [sequence, message] of [
    [2, /the log goes backward/],
    [3, /root 3 has two trees/],
    [4, /consistency: first has another tree/],
  ] as const) {
    show(forked, sequence);
    t.match(await elsewhere(forked, 'acme', `fork-${sequence}`), { code: 1, out: message }, `another state, root ${sequence}`);
  }
  t.equal(forked.handedIn.length, 0);

  rmSync(state);
  site.ledger = FORK;
  show(site, 3);
  t.match(await watch(), { code: 1, out: /two trees/ }, 'a state that was lost opens no other history');
  rmSync(state);
  site.ledger = ledger;
  publish(4);
  t.match(await watch(), { code: 0, out: /root 4\n/ }, 'and the true one goes on');
  t.equal(site.handedIn.length, 3);

  const folder = `${file}.cosigned`;
  t.equal(readdirSync(folder).length, 3, 'the last two of one log, and one of the other');
  const entries = readdirSync(folder).map((name) => join(folder, name));
  const kept = entries.map((path) => readFileSync(path, 'utf8'));
  for (const path of entries) writeFileSync(path, readFileSync(path, 'utf8').slice(0, -9));
  t.match(await watch(), { code: 2, err: /is damaged .* or make a new key/ });
  for (const [at, path] of entries.entries()) writeFileSync(path, (kept[at] ?? '').replace(/"origin":"[^"]*"/, '"origin":"x"'));
  t.match(await watch(), { code: 2, err: /it is of the log x/ });
  rmSync(folder, { recursive: true });
  t.match(await watch(), { code: 2, err: /is missing, and is the memory of what this key has cosigned/ });
  t.equal(site.handedIn.length, 3);
});

t.test('of processes that go on from one tree at the same time one signs', async (t) => {
  const { file } = await newWitness(tempDir(t), 'w.example.com');
  const origin = 'log.example.com/orgs/acme';
  const tree = (size: number, fork = 'aa') => ({ origin, sequence: size, tree_size: size, tree_hash: fork.repeat(32) });
  const late = await CosignedTrees.of(file);
  t.equal(await late.last(origin), undefined);
  const racers = await Promise.all(Array.from({ length: 8 }, () => CosignedTrees.of(file)));
  const ended = await Promise.allSettled(racers.map((one, at) => one.add(tree(1, `a${at}`))));
  t.equal(ended.filter(({ status }) => status === 'fulfilled').length, 1);
  for (const one of ended)
    if (one.status === 'rejected') t.match(one.reason, { message: /another process has cosigned log\.example\.com.* meanwhile/ });
  const won = ended.findIndex(({ status }) => status === 'fulfilled');
  t.same(await (await CosignedTrees.of(file)).last(origin), tree(1, `a${won}`), 'and it is remembered');
  const second = await CosignedTrees.of(file);
  for (const size of [2, 3, 4]) await (await CosignedTrees.of(file)).add(tree(size));
  await t.rejects(late.add(tree(9, 'ff')), { message: /meanwhile/ }, 'one that has looked long ago finds its number free again');
  await t.rejects(second.last(origin), { message: /meanwhile/ }, 'or what it has seen gone');
  await t.rejects(second.add(tree(9, 'ff')), { message: /meanwhile/ });
  const now = await CosignedTrees.of(file);
  t.same(await now.last(origin), tree(4));
  await now.add(tree(5));
  t.same(await (await CosignedTrees.of(file)).last(origin), tree(5));
  t.equal(readdirSync(`${file}.cosigned`).length, 2);
});

t.test('a checkpoint of a key whose turn it is not', async (t) => {
  const dir = tempDir(t);
  const ledger = makeLedger(BATCHES);
  const key = ledgerKey(7);
  const { tree_size = 0, tree_hash = '' } = ledger.roots[1] ?? {};
  const listed = listedKey('ledger-1', 'ledger', createPublicKey(key));
  const witnessKey = ledgerKey(41);
  const publicKey = Buffer.from(listedKey('w', 'ledger', createPublicKey(witnessKey)).public_key, 'base64');
  const witness = noteKey('w.example.com', NOTE_TYPE.cosignature, publicKey);
  const write = (name: string, content: unknown) => {
    const path = join(dir, name);
    writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
    return path;
  };
  const unsigned = signCheckpoint('log.example.com/orgs/acme', { tree_size, tree_hash }, { key, listed });
  const check = (window: Partial<ListedKey>, cosignedAt?: string, ...more: readonly string[]) => {
    const line = (at: string) =>
      cosign(readNote(unsigned).text, witness, Date.parse(at) / 1_000, (message) => sign(undefined, message, witnessKey));
    const file = write('checkpoint.txt', cosignedAt === undefined ? unsigned : `${unsigned}${line(cosignedAt)}\n`);
    const trusted = cosignedAt === undefined ? [] : ['--witness-keys', write('witnesses', witness.vkey)];
    return gw(['verify', '--checkpoint', file, '--keys', write('keys.json', { data: [{ ...listed, ...window }] }), ...trusted, ...more]);
  };
  const retired = { not_after: '2026-02-01T00:00:00.000Z' };
  const note = /^ {2}note {8}the checkpoint is signed with ledger-1, which was retired at 2026-02-01T00:00:00\.000Z, and nothing given/m;
  t.match(await check(retired), { code: 0, out: note });
  t.match(await check(retired, '2026-02-01T00:00:00Z'), { code: 0, out: note }, 'cosigned after its end');
  t.match(JSON.parse((await check(retired, undefined, '--json')).out), { verified: true, notes: [/retired/] });
  const roots = ['--roots', write('roots.json', { data: ledger.roots })];
  for (const [what, said] of [
    ['cosigned before its end', await check(retired, '2026-01-31T23:59:59Z')],
    ['with its root', await check(retired, undefined, ...roots)],
    ['not retired', await check({})],
    ['to be retired', await check({ not_after: '2999-01-01T00:00:00.000Z' })],
  ] as const) {
    t.match(said, { code: 0, out: /^verified/ }, what);
    t.notMatch(said.out, /note/, what);
  }
  t.match(await check({ not_before: '2999-01-01T00:00:00.000Z' }), {
    code: 1,
    out: /its key \(ledger-1\) signs from 2999-01-01T00:00:00\.000Z on, which is not yet/,
  });
});

t.test('what cannot be used is told', async (t) => {
  const dir = tempDir(t);
  const { file, vkey } = await newWitness(dir, 'w.example.com');
  t.match(await gw(['verify', '--witness-key', file]), { code: 2, err: /w\.example\.com\.pem: / }, 'a key that is there stays');
  mkdirSync(join(dir, 'new.pem.cosigned'));
  t.match(await gw(['verify', '--witness-key', join(dir, 'new.pem')]), { code: 2, err: /new\.pem\.cosigned: it is there already/ });
  t.notOk(existsSync(join(dir, 'new.pem')), 'no key begins with the memory of another');
  t.match(await gw(['verify', '--witness-key', join(dir, 'x'), '--name', 'a b']), { code: 2, err: /--name takes 1 to 128/ });
  t.match(await gw(['verify', '--watch', 'http://127.0.0.1:1', '--state', 's', '--name', 'a']), { code: 2, err: /it needs --cosign/ });
  writeFileSync(join(dir, 'none'), 'x');
  t.match(await gw(['verify', '--watch', 'http://127.0.0.1:1', '--state', join(dir, 's'), '--cosign', join(dir, 'none')]), {
    code: 2,
    err: /holds no private Ed25519 key in PEM; gw verify --witness-key makes one/,
  });
  const env = { CP_DATA_DIR: tempDir(t), CP_HTTP_PORT: '0', CP_GRPC_PORT: '0' };
  for (const [name, value] of [
    ['CP_LEDGER_NAME', 'https://ledger+x'],
    ['CP_CHECKPOINT_INTERVAL', '1ms'],
    ['CP_WITNESS_KEYS', Array.from({ length: 17 }, () => vkey).join(',')],
  ] as const)
    t.match(await gw(['control-plane', 'start'], { env: { ...env, [name]: value } }), { code: 2, err: new RegExp(name) });
  for (const value of ['w+1+A', `${vkey},${vkey}`])
    t.match(await gw(['control-plane', 'start'], { env: { ...env, CP_WITNESS_KEYS: value } }), { code: 1, err: /CP_WITNESS_KEYS: / });
});
