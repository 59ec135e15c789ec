/*
 * Somebody who has nothing of ours checks what was handed out: with openssl, Python's standard library and coreutils,
 * as the page in the folder says.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import t, { type Test } from 'tap';
import { canonicalJson } from '../../src/base/json/jcs.ts';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { originOf, signCheckpoint } from '../../src/ledger/checkpoint.ts';
import { type ConsistencyProof, treeHeadOf } from '../../src/ledger/consistency-proof.ts';
import { bareEnvironment, eventually, run } from '../support/child.ts';
import { ControlPlanePlace, PLACE_WORKLOAD } from '../support/control-plane-place.ts';
import { ADMIN_TOKEN } from '../support/gateway.ts';
import { type GatewayProcess, MAIN } from '../support/gateway-process.ts';
import { startGoverned } from '../support/governed.ts';
import { startBrowser } from '../support/headless-browser.ts';
import { verifiedProof } from '../support/ledger-judge.ts';
import { ledgerKey, type MadeLedger, madeRecord, makeLedger } from '../support/made-ledger.ts';
import { skipWithout } from '../support/peers.ts';
import { gw } from '../support/run-gw.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';
import { startAuthority } from '../support/time-stamp-authority.ts';
import { startLog } from '../support/transparency-log.ts';

/** The line of the newest record that is proved: one waits. */
const PROVED = 2;

interface Exported {
  readonly folder: string;
  /** Of a shell on the machine of the gateway. */
  readonly env: Readonly<Record<string, string>>;
  /** `gw verify --export` as a user writes it, without the folder. */
  readonly args: readonly string[];
  readonly gateway: GatewayProcess;
  readonly place: ControlPlanePlace;
}

/**
 * A gateway and its control plane as programs of their own: of seven calls four are under the newest of three roots,
 * and the last one waits, since the link is cut.
 */
async function running(t: HasTeardown, settings: Readonly<Record<string, string>> = {}): Promise<Exported> {
  const place = await ControlPlanePlace.start(t, {}, settings);
  const gateway = await place.gateway('node-1');
  const call = async (): Promise<string> => {
    const action = { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params: { model: 'gpt-4', messages: [] } };
    const body = { schema: 'gw.action_request.v2', org_id: place.org, workload_id: PLACE_WORKLOAD, action };
    const answer = await fetch(`${gateway.url}/v1/actions:execute`, { method: 'POST', body: JSON.stringify(body) });
    const { record_id: id } = (await answer.json()) as { readonly record_id?: string };
    return String((await gateway.record(id))['record_hash']);
  };
  const proved = (hash: string) => verifiedProof((path) => gateway.admin('GET', path), hash);
  await proved(await call());
  await proved(await call());
  // What is handed in at once is of one batch.
  place.link.cut();
  const together = [await call(), await call(), await call(), await call()];
  place.link.resume();
  for (const hash of together) await proved(hash);
  place.link.cut();
  await call();
  const env = { GW_ADMIN_TOKEN: ADMIN_TOKEN, GW_ORG_ID: place.org, GW_DATA_DIR: gateway.env['GW_DATA_DIR'] ?? '' };
  const args = ['verify', '--gateway', gateway.url, '--control-plane', place.controlPlane.url];
  return { folder: join(tempDir(t), 'evidence'), env, args, gateway, place };
}

/** Runs the program itself, once: what it does the second time is asked in this process. */
async function gwMain(t: HasTeardown, args: readonly string[], env: Readonly<Record<string, string>>) {
  const { code, stdout: out, stderr: err } = await run(t, process.execPath, [MAIN, ...args], { env });
  return { code, out, err };
}

/**
 * The commands of the page, one after the other, in a folder, about its newest record that is proved; those of one part
 * by its number.
 */
function byHand(
  folder: string,
  parts: readonly number[],
  kind: 'sh' | 'text' = 'sh',
): { readonly code: number | null; readonly said: string } {
  const page = readFileSync(join(folder, 'README.md'), 'utf8');
  const blocks = [...page.matchAll(new RegExp(`^### (\\d)[^\\n]*\\n(?:(?!^#)[\\s\\S])*?\`\`\`${kind}\\n([\\s\\S]*?)\`\`\``, 'gm'))];
  const script = blocks.filter(([, number]) => parts.includes(Number(number))).map(([, , commands]) => commands);
  return sh(folder, script.join('\n').replace('line=1\n', `line=${PROVED}\n`));
}

function sh(
  cwd: string,
  script: string,
  env: Readonly<Record<string, string>> = {},
): { readonly code: number | null; readonly said: string } {
  const { status, stdout, stderr } = spawnSync('sh', ['-e', '-c', script], {
    cwd,
    encoding: 'utf8',
    env: { ...bareEnvironment(), ...env },
  });
  return { code: status, said: `${stdout}${stderr}` };
}

/** The page of an export in a browser without a network. */
interface OpenPage {
  /** What it says of the files of a folder. */
  check(folder: string): Promise<{ readonly verdict: string; readonly state: string; readonly problems: readonly string[] }>;
  readonly violations: readonly string[];
}

async function openPage(t: Test, folder: string): Promise<OpenPage> {
  const context = await (await startBrowser(t)).newContext({ offline: true });
  context.setDefaultTimeout(120_000);
  const page = await context.newPage();
  const violations: string[] = [];
  page.on('console', (message) => violations.push(message.text()));
  page.on('pageerror', (error) => violations.push(error.message));
  await page.goto(pathToFileURL(join(folder, 'verify.html')).href);
  return {
    violations,
    async check(one) {
      const files = readdirSync(one, { recursive: true, encoding: 'utf8' }).map((name) => join(one, name));
      await page.setInputFiles(
        '#files',
        files.filter((file) => statSync(file).isFile()),
      );
      await page.locator('#verdict:not([data-state=none], [data-state=busy])').waitFor();
      const [verdict = '', state = ''] = [await page.textContent('#verdict'), await page.getAttribute('#verdict', 'data-state')].map(
        String,
      );
      const problems = await page.locator('#problems li').allTextContents();
      await page.setInputFiles('#files', []);
      await page.locator('#verdict[data-state=none]').waitFor();
      return { verdict, state, problems };
    },
  };
}

/** The same cosignature, of a second later or earlier. */
function laterBy1(line: string): string {
  const [dash, name, blob = ''] = line.split(' ');
  const bytes = Buffer.from(blob, 'base64');
  bytes[11] = (bytes[11] ?? 0) ^ 1;
  return `${dash} ${name} ${bytes.toString('base64')}`;
}

function checkAll(folder: string, ...args: string[]): { readonly code: number | null; readonly said: string } {
  const { status, stdout, stderr } = spawnSync('python3', ['check.py', ...args], { cwd: folder, encoding: 'utf8' });
  return { code: status, said: `${stdout}${stderr}` };
}

t.test(
  'an export is checked by openssl and Python, and each tampering is found',
  { skip: skipWithout(['openssl', 'python3', 'coreutils']) },
  async (t) => {
    const authority = await startAuthority(t);
    const witness = join(tempDir(t), 'witness.pem');
    const { out: vkey } = await gw(['verify', '--witness-key', witness, '--name', 'w.example.com']);
    const log = await startLog(t);
    const settings = {
      CP_TSA_URL: authority.url,
      CP_TSA_CA_FILE: authority.caFile,
      CP_REKOR_URL: log.url,
      CP_REKOR_PUBLIC_KEY_FILE: log.keyFile,
      CP_WITNESS_KEYS: vkey.trim().replace(/^[^=]*=/, ''),
    };
    const { folder, env, args, place } = await running(t, settings);
    await eventually('the first stamp', async () => (await place.listOf('/timestamps')).length > 0 || undefined);
    await eventually('the first entry', async () => (await place.listOf('/log-entries')).length > 0 || undefined);
    const watch = ['verify', '--watch', place.controlPlane.url, '--state', `${witness}.state`, '--org', place.org];
    t.match(await gw([...watch, '--cosign', witness, '--name', 'w.example.com']), { code: 0, out: /cosigned {2}6 hashes of ledger-/ });
    const done = await gwMain(t, [...args, '--export', folder, '--json'], env);
    t.equal(done.code, 0, done.err);
    t.match(JSON.parse(done.out), { org_id: 'acme', records: 7, verified: 6, pending: 1, gone: 0, roots: 3 });
    t.match(await gw([...args, '--export', folder], { env }), { code: 2, err: /it is not empty/ });
    t.same(readdirSync(folder).sort(), [
      'README.md',
      'check.py',
      'checkpoint.txt',
      'consistency.json',
      'export.json',
      'keys.json',
      'log-entries.ndjson',
      'proofs.ndjson',
      'records.ndjson',
      'roots.ndjson',
      'timestamps',
      'verify.html',
    ]);
    const page = skipWithout(['chromium']) === false ? await openPage(t, folder) : undefined;
    t.match(await page?.check(folder), page && { verdict: 'Everything fits; 1 records wait for a root.', state: 'good', problems: [] });
    t.same(readdirSync(join(folder, 'timestamps')), ['1.tsr']);
    t.ok(statSync(join(folder, 'check.py')).size > 1_000);

    t.match(checkAll(folder), {
      code: 0,
      said: /^note: root 1 was there at \d{14}Z, .*\nnote: root 1 was entered in a log at 2026-09-21T14:13:20Z, .*\nnote: the checkpoint of 6 hashes is signed by its log\n6 records are proved, 1 wait for a root; a chain of 3 roots; 0 problems\n$/,
    });
    const witnesses = `${witness}.keys`;
    writeFileSync(witnesses, settings.CP_WITNESS_KEYS);
    t.match(checkAll(folder, '--witness-keys', witnesses), { code: 0, said: /^note: "w\.example\.com" has cosigned it at 20.*Z$/m });
    const stamped = sh(
      folder,
      `sed -n 1p roots.ndjson | tr -d '\\n' > root.json\nopenssl ts -verify -data root.json -in timestamps/1.tsr -CAfile "$CA"\nrm root.json`,
      { CA: authority.caFile },
    );
    t.match(stamped, { code: 0, said: /Verification: OK/ });
    const inLog = join(tempDir(t), 'in-log');
    cpSync(folder, inLog, { recursive: true });
    cpSync(log.keyFile, join(inLog, 'log.pem'));
    t.match(byHand(inLog, [8], 'text'), { code: 0, said: /^Verified OK\nVerified OK\n$/ });
    cpSync((await startLog(t)).keyFile, join(inLog, 'log.pem'));
    t.not(byHand(inLog, [8], 'text').code, 0, 'with another key');
    const entryFiles = ['--log-entries', join(folder, 'log-entries.ndjson'), '--rekor-key', log.keyFile];
    const chainFiles = ['--roots', join(folder, 'roots.ndjson'), '--keys', join(folder, 'keys.json')];
    t.match(
      await gw(['verify', ...chainFiles, ...entryFiles]),
      { code: 0, out: /log +root 1 was entered at/ },
      'our own command says the same',
    );
    const hand = byHand(folder, [1, 2, 3, 4, 5]);
    t.equal(hand.code, 0, hand.said);
    const [computed, stored] = hand.said.split('\n');
    t.equal(computed, stored, 'the hash by hand is that of the record');
    t.match(hand.said, /the path leads to the root[\s\S]*Signature Verified Successfully[\s\S]*3 roots follow each other/);

    const lines = (name: string) => readFileSync(join(folder, name), 'utf8').trimEnd().split('\n');
    const [records, proofs, roots] = [lines('records.ndjson'), lines('proofs.ndjson'), lines('roots.ndjson')];
    const consistency = JSON.parse(lines('consistency.json').join('')) as ConsistencyProof;
    const { data: listedKeys } = JSON.parse(lines('keys.json').join('')) as { readonly data: readonly object[] };
    const stranger = makeLedger([['0'.repeat(64)]], { org: 'acme', kid: kidIn(roots), seed: 8 });
    const tampered: readonly (readonly [what: string, file: string, text: readonly string[], problem: RegExp, parts: readonly number[]])[] =
      [
        ['a record', 'records.ndjson', records.map((line) => line.replace('"decision":"', '"decision":"not-')), /line 2: its hash is/, []],
        [
          'a proof of another leaf',
          'proofs.ndjson',
          [proofs[0] ?? '', proofs[2] ?? '', proofs[1] ?? '', ...proofs.slice(3)],
          /line 2: the proof on its line is of another record/,
          [1, 3],
        ],
        [
          'a step of a path',
          'proofs.ndjson',
          proofs.map((line) => line.replace(/"hash":"."/, '"hash":"f').replace(/("hash":")[0-9a-f]{4}/, '$10000')),
          /line 2: its path does not lead to root_hash/,
          [1, 3],
        ],
        [
          'a root',
          'roots.ndjson',
          roots.map((line, at) => (at === 1 ? line.replace('"leaf_count":1', '"leaf_count":2') : line)),
          /root 2: its signature does not fit/,
          [1, 5],
        ],
        [
          'a consistency path',
          'consistency.json',
          [JSON.stringify(consistency).replace(/"path":\["..../, '"path":["0000')],
          /consistency: the path does not lead to both trees/,
          [],
        ],
        [
          'a tree of a consistency proof',
          'consistency.json',
          [JSON.stringify({ ...consistency, path: [...consistency.path, '0'.repeat(64)] })],
          /consistency: the path is not that of a tree of 1 leaves and one of 6/,
          [],
        ],
        [
          'an entry of another root',
          'log-entries.ndjson',
          lines('log-entries.ndjson').map((line) => line.replace('"sequence":1,', '"sequence":2,')),
          /log entry:? on line 1: it is of something else than its root/,
          [],
        ],
        [
          'an entry that is in another tree',
          'log-entries.ndjson',
          lines('log-entries.ndjson').map((line) => line.replace('"treeSize":1', '"treeSize":2')),
          /on line 1: its path is not that of leaf 0 of 2/,
          [],
        ],
        [
          'an entry under another checkpoint',
          'log-entries.ndjson',
          lines('log-entries.ndjson').map((line) => line.replace('- 42\\n1\\n', '- 42\\n2\\n')),
          /on line 1: its path does not lead to the tree of its checkpoint/,
          [],
        ],
        ['an entry that is none', 'log-entries.ndjson', ['{"sequence":1}'], /on line 1: entry is not an object/, []],
        ['a chain that was cut', 'roots.ndjson', [roots[0] ?? '', roots[2] ?? ''], /root 3: root 2 should stand there/, [1, 5]],
        ['a chain without the last roots', 'roots.ndjson', roots.slice(0, 1), /root [23] of its proof is not in the chain/, []],
        ['other keys', 'keys.json', [JSON.stringify({ data: stranger.keys })], /its signature does not fit/, [1, 4]],
        [
          'a key that was retired before',
          'keys.json',
          [JSON.stringify({ data: listedKeys.map((key) => ({ ...key, not_after: '2020-01-01T00:00:00Z' })) })],
          /was retired when it was closed/,
          [],
        ],
        [
          'a key that begins later',
          'keys.json',
          [JSON.stringify({ data: listedKeys.map((key) => ({ ...key, not_before: '2100-01-01T00:00:00.000+02:00' })) })],
          /signs later than it was closed/,
          [],
        ],
        [
          'a name that stands twice',
          'records.ndjson',
          records.map((line) => line.replace('{', '{"decision":"deny",')),
          /line 2: a name stands twice/,
          [],
        ],
      ];
    for (const [what, file, text, problem, parts] of tampered) {
      const copy = join(tempDir(t), 'copy');
      cpSync(folder, copy, { recursive: true });
      writeFileSync(join(copy, file), `${text.join('\n')}\n`);
      t.match(checkAll(copy), { code: 1, said: problem }, what);
      const shown = await page?.check(copy);
      t.match(shown, page && { state: 'bad', verdict: /thing does not fit|things do not fit/ }, `${what}, in a browser`);
      if (shown !== undefined) t.match(shown.problems.join('\n'), problem, `${what}, in a browser`);
      if (parts.length > 0) t.not(byHand(copy, parts).code, 0, `${what}, by hand`);
    }
    const copy = join(tempDir(t), 'copy');
    cpSync(folder, copy, { recursive: true });
    renameSync(join(copy, 'timestamps', '1.tsr'), join(copy, 'timestamps', '2.tsr'));
    t.match(checkAll(copy), { code: 1, said: /time stamp 2\.tsr: it is of something else/ });
    t.match(await page?.check(copy), page && { problems: [/time stamp: 2\.tsr: it is of something else/] });
    writeFileSync(join(copy, 'timestamps', '2.tsr'), 'x');
    t.match(checkAll(copy), { code: 1, said: /time stamp 2\.tsr: it is no time stamp/ });
    rmSync(join(copy, 'timestamps'), { recursive: true });
    const checkpoint = readFileSync(join(copy, 'checkpoint.txt'), 'utf8');
    const [logLine = '', witnessLine = ''] = checkpoint.trimEnd().split('\n').slice(-2);
    for (const [what, text, problem] of [
      ['another size', checkpoint.replace('\n6\n', '\n5\n'), /checkpoint: its tree is of no root in the chain/],
      ['another origin', checkpoint.replace(/^ledger-/, 'ledgers-'), /checkpoint: .*(no key that is known has signed it|does not fit)/],
      ['a cosignature of another time', checkpoint.replace(witnessLine, laterBy1(witnessLine)), /w\.example\.com does not fit/],
      ['no signature of the log', checkpoint.replace(`${logLine}\n`, ''), /no key that is known has signed it as the log/],
    ] as const) {
      writeFileSync(join(copy, 'checkpoint.txt'), text);
      t.match(checkAll(copy, '--witness-keys', witnesses), { code: 1, said: problem }, what);
    }
    writeFileSync(join(copy, 'checkpoint.txt'), checkpoint);
    rmSync(join(copy, 'keys.json'));
    t.match(checkAll(copy), { code: 1, said: /signatures: not checked, there is no keys\.json/ });
    t.match(checkAll(copy, '--keys', join(folder, 'keys.json')), { code: 0 });
    t.match(await page?.check(copy), page && { state: 'bad', problems: [/signatures: not checked, there is no keys\.json/] });
    t.same(page?.violations ?? [], [], 'the policy of the page keeps nothing of it from running');
    for (const at of [1, 2, 3, 4, 5, 6]) {
      writeFileSync(join(copy, 'record.json'), records[at] ?? '');
      writeFileSync(join(copy, 'answer.json'), proofs[at] ?? '');
      const ours = ['--proof', join(copy, 'answer.json'), '--keys', join(folder, 'keys.json'), '--roots', join(folder, 'roots.ndjson')];
      t.match(await gw(['verify', join(copy, 'record.json'), ...ours]), { code: 0 }, 'our own command says the same');
    }
  },
);

t.test(
  'a record that names another org than its ledger is proved, with a note',
  { skip: skipWithout(['openssl', 'python3']) },
  async (t) => {
    const folder = tempDir(t);
    const { text, hash } = madeRecord({ decision: 'deny', org_id: 'elsewhere', record_id: 'r' });
    const { roots, keys, proofOf } = makeLedger([[hash]]);
    const lines = {
      'records.ndjson': text,
      'proofs.ndjson': JSON.stringify({ status: 'verified', record_hash: hash, inclusion_proof: proofOf(hash) }),
      'roots.ndjson': roots.map((root) => JSON.stringify(root)).join('\n'),
      'keys.json': JSON.stringify({ data: keys }),
      'check.py': readFileSync(join(packageRoot(), 'docs/evidence/check.py'), 'utf8'),
    };
    for (const [name, content] of Object.entries(lines)) writeFileSync(join(folder, name), `${content}\n`);
    t.match(checkAll(folder), {
      code: 0,
      said: /^note: record on line 1 names the org "elsewhere", and the ledger is that of "acme"\n1 records are proved, .*; 0 problems\n$/,
    });
  },
);

t.test(
  'what a declared restore has cut is told apart from a fork, by each who checks',
  { skip: skipWithout(['openssl', 'python3', 'coreutils']) },
  async (t) => {
    const names = ['kept', 'lost', 'later', 'restore'];
    const [kept, lost, later, restore] = names.map((name) => madeRecord({ decision: 'deny', org_id: 'acme', record_id: name }));
    if (kept === undefined || lost === undefined || later === undefined || restore === undefined) throw new Error('no record');
    const before = makeLedger([[kept.hash], [lost.hash]]);
    const batches = [[kept.hash], [restore.hash], [later.hash]];
    const after = makeLedger(batches, { restored: { batch: 1, sequence: 1001 } });
    const folderOf = ({ roots, keys, consistencyOf }: MadeLedger): string => {
      const folder = tempDir(t);
      const answers = [kept, lost, later].map(({ hash }, at) => ({
        status: 'verified',
        record_hash: hash,
        inclusion_proof: (at === 1 ? before : after).proofOf(hash),
      }));
      const lines = {
        'records.ndjson': [kept, lost, later].map(({ text }) => text),
        'proofs.ndjson': answers.map((answer) => JSON.stringify(answer)),
        'roots.ndjson': roots.map((root) => canonicalJson(root)),
        'keys.json': [JSON.stringify({ data: keys })],
        'consistency.json': [JSON.stringify(consistencyOf(1, roots.at(-1)?.sequence ?? 0))],
      };
      for (const [name, content] of Object.entries(lines)) writeFileSync(join(folder, name), `${content.join('\n')}\n`);
      for (const name of ['check.py', 'verify.html']) cpSync(join(packageRoot(), 'docs/evidence', name), join(folder, name));
      cpSync(join(packageRoot(), 'docs/evidence/page.md'), join(folder, 'README.md'));
      return folder;
    };
    const ours = async (folder: string, at: number) => {
      const answer = readFileSync(join(folder, 'proofs.ndjson'), 'utf8').split('\n')[at] ?? '';
      const record = readFileSync(join(folder, 'records.ndjson'), 'utf8').split('\n')[at] ?? '';
      const files = [join(tempDir(t), 'record.json'), join(tempDir(t), 'answer.json')] as const;
      writeFileSync(files[0], record);
      writeFileSync(files[1], answer);
      const beside = ['--keys', join(folder, 'keys.json'), '--roots', join(folder, 'roots.ndjson')];
      return gw(['verify', files[0], '--proof', files[1], ...beside]);
    };
    const declared = folderOf(after);
    const page = skipWithout(['chromium']) === false ? await openPage(t, declared) : undefined;
    t.match(checkAll(declared), {
      code: 3,
      said: /^cut: record on line 2: root 2 of its proof is of a span that a restore has cut\nrestored: roots 2 to 1000 are cut, the backup ended with root 1; declared at "2026-01-01T00:00:00\.000Z" \("the disk was lost"\), signed in root 1001 with "ledger-1"\n2 records are proved, 0 wait for a root; a chain of 3 roots; 0 problems; 1 things are of a span that a restore has cut\n$/,
    });
    t.match(
      await page?.check(declared),
      page && {
        state: 'open',
        verdict: 'A restore from a backup has cut one thing of this; everything else fits.',
        problems: ['record on line 2: root 2 of its proof is of a span that a restore has cut'],
      },
    );
    t.match(await ours(declared, 0), { code: 0, out: /restored +roots 2 to 1000 are cut: the backup ended with root 1/ });
    t.match(await ours(declared, 1), {
      code: 3,
      out: /^CUT BY A RESTORE {2}lost\n[\s\S]* root 2: that of the proof is of a span that a restore has cut/,
    });
    t.match(byHand(declared, [1, 5]), { said: /roots 2 to 1000 are cut by a restore/ });

    // What else was signed and stamped in the span.
    const span = folderOf(after);
    const [, lostRoot] = before.roots;
    const [listed] = before.keys;
    const head = lostRoot === undefined ? undefined : treeHeadOf(lostRoot);
    if (listed === undefined || head === undefined) throw new Error('no tree');
    const note = (name: string, changes: object = {}) =>
      signCheckpoint(originOf(name, 'acme'), { ...head, ...changes }, { key: ledgerKey(7), listed });
    writeFileSync(join(span, 'checkpoint.txt'), note('ledger.example.com'));
    mkdirSync(join(span, 'timestamps'));
    writeFileSync(join(span, 'timestamps', '2.tsr'), 'of a root that is cut');
    t.match(checkAll(span), {
      code: 3,
      said: /^cut: time stamp 2\.tsr: its root is of a span that a restore has cut\ncut: checkpoint: its tree is of a span that a restore has cut\n[\s\S]*; 0 problems; 3 things are/,
    });
    t.match(
      await page?.check(span),
      page && { state: 'open', problems: [/^time stamp: 2\.tsr: its root is of a span/, /^record on line 2/] },
    );
    const beside = ['--keys', join(span, 'keys.json'), '--roots', join(span, 'roots.ndjson')];
    const byGw = () => gw(['verify', '--checkpoint', join(span, 'checkpoint.txt'), ...beside]);
    t.match(await byGw(), { code: 3, out: /^CUT BY A RESTORE[\s\S]*the checkpoint of 2 hashes is of a root in a span/ });
    writeFileSync(join(span, 'checkpoint.txt'), note('ledger.example.com', { tree_size: 1 }));
    t.match(checkAll(span), { code: 1, said: /^checkpoint: its tree is of no root/m }, 'one that is no larger than the backup is a fork');
    t.match(await byGw(), { code: 1, out: /two histories/ });
    writeFileSync(join(span, 'checkpoint.txt'), note('ledger.example.com/restored/900'));
    t.match(checkAll(span), { code: 3, said: /checkpoint: its tree is of a span/ });
    writeFileSync(join(span, 'checkpoint.txt'), note('ledger.example.com/restored/1001'));
    t.match(
      checkAll(span),
      { code: 1, said: /^checkpoint: its tree is of no root in the chain/m },
      'a log that begins later was not cut by that',
    );

    const fork = folderOf(makeLedger(batches));
    t.match(checkAll(fork), { code: 1, said: /root 2 of its proof is not in the chain/ });
    t.match(await page?.check(fork), page && { state: 'bad' });
    t.match(await ours(fork, 1), { code: 1, out: /there are two histories/ });

    // Nobody can say so without the key of the ledger, nor take it back, nor cut more than was signed.
    const text = readFileSync(join(declared, 'roots.ndjson'), 'utf8');
    for (const [what, changed, problem] of [
      ['another word', text.replace('disk was lost', 'disk was sold'), /root 1001: its signature does not fit/],
      ['no word', text.replace(/"restored":\{[^}]*\},/, ''), /root 1001: (its signature does not fit|root 2 should stand there)/],
      ['a wider span', text.replace('"from_sequence":1', '"from_sequence":0'), /root 1001: (its signature does not fit)/],
    ] as const) {
      writeFileSync(join(declared, 'roots.ndjson'), changed);
      t.match(checkAll(declared), { code: 1, said: problem }, what);
      t.match(await page?.check(declared), page && { state: 'bad' }, what);
      t.match(await ours(declared, 1), { code: 1, out: problem }, what);
    }
    const resigned = makeLedger(batches, { restored: { batch: 1, sequence: 1001 }, seed: 8 });
    writeFileSync(join(declared, 'roots.ndjson'), resigned.roots.map((root) => `${canonicalJson(root)}\n`).join(''));
    t.match(checkAll(declared), { code: 1, said: /root 1: its signature does not fit/ }, 'by another key');
    t.match(await ours(declared, 1), { code: 1, out: /root 1: its signature does not fit/ });
    t.same(page?.violations ?? [], []);
  },
);

t.test(
  'of a gateway without a control plane it is said what cannot be shown, and that is no problem',
  { skip: skipWithout(['python3']) },
  async (t) => {
    const { gw: gateway, execute } = await startGoverned(t);
    for (let at = 0; at < 3; at += 1) await execute();
    const folder = join(tempDir(t), 'evidence');
    const env = { GW_ADMIN_TOKEN: ADMIN_TOKEN, GW_DATA_DIR: gateway.dataDir };
    const exported = await gw(['verify', '--gateway', gateway.url, '--from', '2020-01-01', '--export', folder], { env });
    t.match(exported, { code: 0, out: /roots +none: a gateway without a control plane makes none/ }, exported.err);
    t.match(checkAll(folder), {
      code: 0,
      said: /^note: no root has been made over these records [^\n]*\n0 records are proved, 3 wait for a root; no chain; 0 problems\n$/,
    });
    const records = readFileSync(join(folder, 'records.ndjson'), 'utf8');
    writeFileSync(join(folder, 'records.ndjson'), records.replace('"decision":"', '"decision":"not-'));
    t.match(checkAll(folder), { code: 1, said: /line 1: its hash is[\s\S]*1 problems\n$/ }, 'a changed record is one');
  },
);

/** The name of the key of these roots. */
function kidIn([root = '{}']: readonly string[]): string {
  return (JSON.parse(root) as { readonly sig: { readonly kid: string } }).sig.kid;
}

t.test(
  'the commands of the guide do what it says, with a gateway and a control plane that run',
  { skip: skipWithout(['openssl', 'python3', 'coreutils', 'curl']) },
  async (t) => {
    const { folder, env, args, gateway, place } = await running(t);
    const guide = readFileSync(join(packageRoot(), 'docs/guides/verifying.md'), 'utf8');
    const commandsOf = (heading: string) =>
      new RegExp(`^## ${heading}\\n[\\s\\S]*?\`\`\`sh\\n([\\s\\S]*?)\`\`\``, 'm').exec(guide)?.[1] ?? 'false';
    t.match(await gw([...args, '--export', folder], { env }), { code: 0, out: /of which 6 have a proof and 1 wait for a root/ });
    const hand = sh(folder, commandsOf('Check by hand'));
    t.equal(hand.code, 0, hand.said);
    const hexes = [...hand.said.matchAll(/^([0-9a-f]{64}) /gm)].map(([, hex]) => hex);
    const [newest = '', proved = ''] = readFileSync(join(folder, 'records.ndjson'), 'utf8').split('\n');
    const [, second = ''] = readFileSync(join(folder, 'roots.ndjson'), 'utf8').split('\n');
    t.same(hexes, [hashIn(newest, 'record_hash'), hashIn(second, 'prev_root_hash')]);
    t.match(hand.said, /Signature Verified Successfully/);

    place.link.resume();
    const record = JSON.parse(proved) as { readonly record_id: string; readonly record_hash: string };
    const script = commandsOf('A record, a proof, a chain: offline')
      .replaceAll('http://127.0.0.1:7080', gateway.url)
      .replaceAll('http://127.0.0.1:7444', place.controlPlane.url)
      .replaceAll('RECORD_ID', record.record_id)
      .replaceAll('RECORD_HASH', record.record_hash);
    // As the folder of a gateway, which has its token.
    const work = tempDir(t);
    mkdirSync(join(work, 'data'));
    writeFileSync(join(work, 'data', 'admin-token'), ADMIN_TOKEN);
    const offline = sh(work, `gw() { "$NODE" "$MAIN" "$@"; }\n${script}`, { NODE: process.execPath, MAIN });
    t.equal(offline.code, 0, offline.said);
    t.equal(offline.said.match(/^verified {2}/gm)?.length, 4, offline.said);
    t.match(offline.said, /chain +roots 1 to \d+ of acme, without a gap/);
  },
);

function hashIn(line: string, name: string): string {
  return String((JSON.parse(line) as Readonly<Record<string, unknown>>)[name]);
}

t.test(
  'a management key exports with the proofs of the control plane, the admin token without it, and what cannot be says so',
  async (t) => {
    const { folder, env, args, gateway, place } = await running(t);
    const made = await gateway.admin('POST', '/v1/admin/mgmt-keys', {
      org_id: place.org,
      name: 'auditor',
      kind: 'management',
      scopes: ['read'],
    });
    const { key } = made.body as { readonly key: string };
    const exported = await gw([...args, '--export', folder, '--key', key, '--json'], { env: { GW_ORG_ID: place.org } });
    t.equal(exported.code, 0, exported.err);
    t.match(JSON.parse(exported.out), { org_id: 'acme', records: 7, verified: 6, pending: 1, roots: 3 });
    const alone = args.slice(0, 3);
    const without = `${folder}-without`;
    t.match(await gw([...alone, '--export', without], { env }), {
      code: 0,
      out: /records {2}7, of which 6 have a proof and 1 wait for a root\n.*--control-plane adds the chain and the keys/,
    });
    t.notOk(readdirSync(without).includes('roots.ndjson'));
    t.equal(
      readFileSync(join(folder, 'proofs.ndjson'), 'utf8'),
      readFileSync(join(without, 'proofs.ndjson'), 'utf8'),
      'gateway and control plane say the same',
    );
    const wrong: readonly (readonly [more: readonly string[], err: RegExp])[] = [
      [['--key', key], /a management key does not open \/v1\/verify/],
      [['--from', 'yesterday'], /from/],
      [['--control-plane', 'http://127.0.0.1:1'], /cannot be asked/],
    ];
    for (const [at, [more, err]] of wrong.entries()) {
      const { code, err: said } = await gw([...alone, '--export', `${folder}-${at}`, ...more], { env });
      t.not(code, 0);
      t.match(said, err);
    }
  },
);
