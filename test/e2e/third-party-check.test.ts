/* Somebody who has nothing of ours checks what was handed out: with openssl, Python's standard library and coreutils, as the page in the folder says. */
import { spawnSync } from 'node:child_process';
import { cpSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { run } from '../support/child.ts';
import { ControlPlanePlace, PLACE_WORKLOAD } from '../support/control-plane-place.ts';
import { ADMIN_TOKEN } from '../support/gateway.ts';
import { type GatewayProcess, MAIN } from '../support/gateway-process.ts';
import { verifiedProof } from '../support/ledger-judge.ts';
import { makeLedger } from '../support/made-ledger.ts';
import { skipWithout } from '../support/peers.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

t.setTimeout(300_000);

interface Exported {
  readonly folder: string;
  /** Of a shell on the machine of the gateway. */
  readonly env: Readonly<Record<string, string>>;
  /** `gw verify --export` as a user writes it, without the folder. */
  readonly args: readonly string[];
  readonly gateway: GatewayProcess;
  readonly place: ControlPlanePlace;
  /** A call, and the hash of its record. */
  call(body?: object): Promise<string>;
}

/** A gateway and its control plane as programs of their own; five calls in three batches are proved, and the newest waits behind a link that is cut. */
async function running(t: HasTeardown): Promise<Exported> {
  const place = await ControlPlanePlace.start(t);
  const gateway = await place.gateway('node-1');
  const call = async (more: object = {}): Promise<string> => {
    const action = { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params: { model: 'gpt-4', messages: [] } };
    const body = { schema: 'gw.action_request.v2', org_id: place.org, workload_id: PLACE_WORKLOAD, action, ...more };
    const answer = await fetch(`${gateway.url}/v1/actions:execute`, { method: 'POST', body: JSON.stringify(body) });
    const { record_id: id } = (await answer.json()) as { readonly record_id?: string };
    return String((await gateway.record(id))['record_hash']);
  };
  for (const calls of [3, 1, 1]) {
    const hashes = await Promise.all(Array.from({ length: calls }, () => call()));
    for (const hash of hashes) await verifiedProof((path) => gateway.admin('GET', path), hash);
  }
  const env = { GW_ADMIN_TOKEN: ADMIN_TOKEN, GW_ORG_ID: place.org, GW_DATA_DIR: gateway.env['GW_DATA_DIR'] ?? '' };
  const args = ['verify', '--gateway', gateway.url, '--control-plane', place.controlPlane.url];
  return { folder: join(tempDir(t), 'evidence'), env, args, gateway, place, call };
}

/** Runs the program itself. */
async function gwMain(t: HasTeardown, args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const { code, stdout: out, stderr: err } = await run(t, process.execPath, [MAIN, ...args], { env });
  return { code, out, err };
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
