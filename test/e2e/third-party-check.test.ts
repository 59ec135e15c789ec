/* Somebody who has nothing of ours checks what was handed out: with openssl, Python's standard library and coreutils, as the page in the folder says. */
import { spawnSync } from 'node:child_process';
import { cpSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { startGoverned } from '../support/governed.ts';
import { makeLedger, startLedgerSite } from '../support/made-ledger.ts';
import { managedOf } from '../support/managed.ts';
import { skipWithout } from '../support/peers.ts';
import { gw as runGw } from '../support/run-gw.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

t.setTimeout(300_000);

interface Exported {
  readonly folder: string;
  readonly env: Readonly<Record<string, string>>;
  readonly args: readonly string[];
}

/** Six calls, five of which are under three roots, exported by the command. */
async function exported(t: HasTeardown): Promise<Exported> {
  const { gw, execute } = await startGoverned(t);
  for (let call = 0; call < 6; call++)
    await execute({}, { params: { model: `gpt-4o-mini-${call}`, messages: [{ role: 'user', content: 'hello' }] } });
  const managed = await managedOf(gw);
  const { key } = await managed.keyOf('default', ['read']);
  const listed = (await managed.with(key)('GET', 'records')).body as { data: readonly { record_hash: string }[] };
  const hashes = listed.data.map(({ record_hash: hash }) => hash);
  const ledger = makeLedger([hashes.slice(0, 3), hashes.slice(3, 4), hashes.slice(4, 5)], { org: 'default' });
  const site = await startLedgerSite(t, ledger, 'default');
  site.page = 2;
  const folder = join(tempDir(t), 'evidence');
  const env = { GW_PORT: String(gw.port), GW_DATA_DIR: gw.dataDir, GW_ADMIN_TOKEN: 'test-admin-token-0123456789' };
  const args = ['verify', '--gateway', gw.url, '--control-plane', site.url, '--key', key];
  return { folder, env, args };
}

/** The commands of the page, one after the other, in a folder; those of one part by its number. */
function byHand(folder: string, parts: readonly number[]): { readonly code: number | null; readonly said: string } {
  const page = readFileSync(join(folder, 'README.md'), 'utf8');
  const blocks = [...page.matchAll(/^### (\d)[^\n]*\n[\s\S]*?```sh\n([\s\S]*?)```/gm)];
  const script = blocks.filter(([, number]) => parts.includes(Number(number))).map(([, , commands]) => commands);
  const { status, stdout, stderr } = spawnSync('sh', ['-e', '-c', script.join('\n')], { cwd: folder, encoding: 'utf8' });
  return { code: status, said: `${stdout}${stderr}` };
}

function checkAll(folder: string, ...args: string[]): { readonly code: number | null; readonly said: string } {
  const { status, stdout, stderr } = spawnSync('python3', ['check.py', ...args], { cwd: folder, encoding: 'utf8' });
  return { code: status, said: `${stdout}${stderr}` };
}

t.test(
  'an export is checked by openssl and Python, and each tampering is found',
  { skip: skipWithout(['openssl', 'python3', 'coreutils']) },
  async (t) => {
    const { folder, env, args } = await exported(t);
    const done = await runGw([...args, '--export', folder, '--json'], { env });
    t.equal(done.code, 0, done.err);
    t.match(JSON.parse(done.out), { org_id: 'default', records: 6, verified: 5, pending: 1, gone: 0, roots: 3 });
    t.match(await runGw([...args, '--export', folder], { env }), { code: 2, err: /it is not empty/ });
    t.same(readdirSync(folder).sort(), [
      'README.md',
      'check.py',
      'export.json',
      'keys.json',
      'proofs.ndjson',
      'records.ndjson',
      'roots.ndjson',
    ]);
    t.ok(statSync(join(folder, 'check.py')).size > 1_000);

    t.match(checkAll(folder), { code: 0, said: /^5 records are proved, 1 wait for a root; a chain of 3 roots; 0 problems\n$/ });
    const hand = byHand(folder, [1, 2, 3, 4, 5]);
    t.equal(hand.code, 0, hand.said);
    const [computed, stored] = hand.said.split('\n');
    t.equal(computed, stored, 'the hash by hand is that of the record');
    t.match(hand.said, /the path leads to the root[\s\S]*Signature Verified Successfully[\s\S]*3 roots follow each other/);

    const lines = (name: string) => readFileSync(join(folder, name), 'utf8').trimEnd().split('\n');
    const [records, proofs, roots] = [lines('records.ndjson'), lines('proofs.ndjson'), lines('roots.ndjson')];
    const stranger = makeLedger([['0'.repeat(64)]], { org: 'default', seed: 8 });
    const tampered: readonly (readonly [what: string, file: string, text: readonly string[], problem: RegExp, parts: readonly number[]])[] =
      [
        ['a record', 'records.ndjson', records.map((line) => line.replace('"decision":"', '"decision":"not-')), /line 1: its hash is/, []],
        [
          'a proof of another leaf',
          'proofs.ndjson',
          [proofs[1] ?? '', proofs[0] ?? '', ...proofs.slice(2)],
          /line 1: the proof on its line is of another record/,
          [1, 3],
        ],
        [
          'a step of a path',
          'proofs.ndjson',
          proofs.map((line) => line.replace(/"hash":"."/, '"hash":"f').replace(/("hash":")[0-9a-f]{4}/, '$10000')),
          /line 1: its path does not lead to root_hash/,
          [1, 3],
        ],
        [
          'a root',
          'roots.ndjson',
          roots.map((line, at) => (at === 1 ? line.replace('"leaf_count":1', '"leaf_count":2') : line)),
          /root 2: its signature does not fit/,
          [1, 5],
        ],
        ['a chain that was cut', 'roots.ndjson', [roots[0] ?? '', roots[2] ?? ''], /root 3: root 2 should stand there/, [1, 5]],
        ['a chain without the last roots', 'roots.ndjson', roots.slice(0, 1), /root [23] of its proof is not in the chain/, []],
        ['other keys', 'keys.json', [JSON.stringify({ data: stranger.keys })], /its signature does not fit/, [1, 4]],
        [
          'a name that stands twice',
          'records.ndjson',
          records.map((line) => line.replace('{', '{"decision":"deny",')),
          /line 1: a name stands twice/,
          [],
        ],
      ];
    for (const [what, file, text, problem, parts] of tampered) {
      const copy = join(tempDir(t), 'copy');
      cpSync(folder, copy, { recursive: true });
      writeFileSync(join(copy, file), `${text.join('\n')}\n`);
      t.match(checkAll(copy), { code: 1, said: problem }, what);
      if (parts.length > 0) t.not(byHand(copy, parts).code, 0, `${what}, by hand`);
    }
    const copy = join(tempDir(t), 'copy');
    cpSync(folder, copy, { recursive: true });
    rmSync(join(copy, 'keys.json'));
    t.match(checkAll(copy), { code: 1, said: /signatures: not checked, there is no keys\.json/ });
    t.match(checkAll(copy, '--keys', join(folder, 'keys.json')), { code: 0 });
    for (const at of [0, 1, 2, 3, 4]) {
      writeFileSync(join(copy, 'record.json'), records[at] ?? '');
      writeFileSync(join(copy, 'answer.json'), proofs[at] ?? '');
      const ours = ['--proof', join(copy, 'answer.json'), '--keys', join(folder, 'keys.json'), '--roots', join(folder, 'roots.ndjson')];
      t.match(await runGw(['verify', join(copy, 'record.json'), ...ours]), { code: 0 }, 'our own command says the same');
    }
  },
);

t.test('without a control plane the gateway alone is asked, and what cannot be exported says so', async (t) => {
  const { folder, env, args } = await exported(t);
  const gateway = args.slice(0, 3);
  t.match(await runGw([...gateway, '--export', folder], { env }), {
    code: 0,
    out: /records {2}6, of which 0 have a proof and 6 wait for a root\n.*--control-plane adds the chain and the keys/,
  });
  t.notOk(readdirSync(folder).includes('roots.ndjson'));
  const wrong: readonly (readonly [more: readonly string[], err: RegExp])[] = [
    [['--key', args.at(-1) ?? ''], /a management key does not open \/v1\/verify/],
    [['--from', 'yesterday'], /from/],
    [['--control-plane', 'http://127.0.0.1:1'], /cannot be asked/],
  ];
  for (const [at, [more, err]] of wrong.entries()) {
    const { code, err: said } = await runGw([...gateway, '--export', `${folder}-${at}`, ...more], { env });
    t.not(code, 0);
    t.match(said, err);
  }
});
