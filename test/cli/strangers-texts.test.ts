// What `gw` shows of texts that others chose: of every command, whatever a gateway answers, nothing is hidden, acted
// on, or a line of its own.
import { writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { z } from 'zod';
import type { Approval } from '../../src/base/model/approval.ts';
import { approvalLine } from '../../src/cli/approvals/approval-text.ts';
import { callOfRecord } from '../../src/cli/logs/call-line.ts';
import { callTable } from '../../src/cli/logs/call-table.ts';
import { allCommands } from '../../src/cli/run.ts';
import { ADMIN_OPERATIONS } from '../../src/control-plane/admin/admin-operation-table.ts';
import { jsonSchema } from '../../src/operations/json-schema.ts';
import { OPERATIONS } from '../../src/operations/operation-table.ts';
import { paintFor } from '../../src/policy-tools/render-problem.ts';
import { FAKED, fakedIn, HOSTILE, hiddenIn, hostileAnswer } from '../support/hostile-text.ts';
import { gw } from '../support/run-gw.ts';
import { tempDir } from '../support/temp-dir.ts';

/** Commands that ask no gateway, or print nothing that comes from one. */
const ASKS_NONE: ReadonlySet<string> = new Set([
  ...['start', 'env', 'run', 'demo', 'init', 'secrets rotate', 'completion', 'version', 'help'],
  ...['trust install', 'trust uninstall', 'trust status', 'verify', 'doctor'],
  ...['delegate keygen', 'delegate issue', 'delegate attenuate', 'delegate inspect'],
  ...['journal check', 'journal repair', 'journal confirm-clock'],
  ...[
    'policy check',
    'policy test',
    'policy diff',
    'policy fmt',
    'policy explain',
    'replay',
    'risk replay',
    'control-plane start',
    'control-plane demo',
  ],
]);
/** Of those that ask: which answers make no output that people read as lines. */
const AS_IT_IS: ReadonlySet<string> = new Set(['control-plane ca read', 'control-plane health read']);
const VALUES: Readonly<Record<string, string>> = { TIME: '2099-01-01T00:00:00Z', N: '1', USD: '1', JSON: '{}', 'true|false': 'true' };

const RECORD = {
  schema: 'gw.execution_record.v2',
  record_id: HOSTILE,
  org_id: HOSTILE,
  workload_id: HOSTILE,
  caller_id: HOSTILE,
  decision: HOSTILE,
  reason: HOSTILE,
  model: HOSTILE,
  started_at: '2026-01-01T00:00:00.000Z',
  completed_at: '2026-01-01T00:00:00.000Z',
};

interface Asked {
  readonly url: string;
  /** Requests so far. */
  count(): number;
}

interface Answerable {
  readonly method: string;
  readonly path: string;
  readonly output: { readonly schema?: z.ZodType };
}

/**
 * A gateway, or a control plane, that answers what its document allows, with a hostile text in every place; or refuses
 * so.
 */
async function lyingGateway(t: Test, operations: readonly Answerable[], refuses: boolean): Promise<Asked> {
  let asked = 0;
  const server: Server = createServer((request, response) => {
    asked += 1;
    request.resume();
    const path = new URL(request.url ?? '', 'http://x').pathname;
    const found = operations.find((one) => one.method === request.method && pattern(one.path).test(path));
    const answer = found?.output.schema === undefined ? {} : hostileAnswer(jsonSchema(found.output.schema, 'output'));
    const error = { error: { code: HOSTILE, message: HOSTILE, details: [{ path: HOSTILE, message: HOSTILE }] } };
    const whole = typeof answer === 'object' && answer !== null ? { ...answer, ...lastPage(answer) } : answer;
    response.writeHead(refuses ? 409 : 200, { 'content-type': 'application/json' }).end(JSON.stringify(refuses ? error : whole));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, count: () => asked };
}

function lastPage(answer: object): object {
  return Object.fromEntries(['next_cursor', 'next_page_token'].filter((name) => name in answer).map((name) => [name, null]));
}

function pattern(path: string): RegExp {
  return new RegExp(`^${path.replace(/\{\w+\}/g, '[^/]+').replace(/:\w+/g, '[^/]+')}$`);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** As YAML and JSON with escapes alone have it: its parsers refuse the signs themselves. */
function yamlText(text: string): string {
  const escaped = [...text].map((sign) =>
    /[ !#-[\]-~]/.test(sign) ? sign : `\\U${(sign.codePointAt(0) ?? 0).toString(16).padStart(8, '0')}`,
  );
  return `"${escaped.join('')}"`;
}

/** Words for what a usage requires. */
function wordsOf(usage: string, file: string): string[] {
  let needed = usage;
  for (let before = ''; before !== needed; ) {
    before = needed;
    needed = needed.replace(/\[[^[\]]*\](?:\.\.\.|…)?/g, '');
  }
  const words = needed
    .trim()
    .split(/\s+/)
    .filter((word) => word !== '' && word !== '…');
  return words.map((word) => {
    const plain = word.replace(/\.\.\.$|…$/, '');
    if (plain.startsWith('--')) return plain;
    if (plain.startsWith('FILE')) return file;
    return VALUES[plain] ?? (plain.includes('|') ? (plain.split('|')[0] ?? '') : 'x1');
  });
}

for (const refuses of [false, true]) {
  t.test(`every command that asks shows ${refuses ? 'a refusal' : 'an answer'} as it is`, async (t) => {
    const gateway = await lyingGateway(t, OPERATIONS, refuses);
    const controlPlane = await lyingGateway(t, ADMIN_OPERATIONS, refuses);
    const file = join(tempDir(t), 'file.yaml');
    writeFileSync(file, 'schema: gw.policy_bundle.v1\nbundle_id: x\nversion: "1"\n');
    const env = { GW_ADMIN_TOKEN: 'test-admin-token-0123456789', GW_ORG_ID: 'acme', CP_ADMIN_TOKEN: 'test-admin-token-0123456789' };
    let tried = 0;
    const unasked: string[] = [];
    const faults: string[] = [];
    for (const { name, usage } of await allCommands()) {
      if (ASKS_NONE.has(name)) continue;
      const ofControlPlane = name.startsWith('control-plane ');
      const to = ofControlPlane ? controlPlane : gateway;
      const access = ofControlPlane ? ['--token', 'x'] : usage.includes('--key mgk_') ? ['--key', 'mgk_test'] : [];
      const words = [...name.split(' '), ...wordsOf(usage, file), '--url', to.url, ...access];
      const before = to.count();
      for (const more of refuses ? [[]] : [[], ['--json']]) {
        const { code, out, err } = await gw([...words, ...more], { env });
        const label = `gw ${[name, ...more].join(' ')}`;
        const isText = !AS_IT_IS.has(name) && more.length === 0;
        for (const fault of [...fakedIn(isText ? `${err}\n${out}` : err), ...hiddenIn(out)]) faults.push(`${label}: ${fault}`);
        if (more.length > 0 && code === 0)
          for (const line of out.trim().split('\n')) if (line !== '' && !isJson(line) && !isJson(out)) faults.push(`${label}: no JSON`);
      }
      tried += 1;
      if (to.count() === before) unasked.push(name);
    }
    t.same(faults, [], [...new Set(faults.map((fault) => fault.split(':')[0]))].join(', '));
    t.ok(tried > 100, `${tried} commands`);
    t.ok(unasked.length <= 16, `were asked: all but ${unasked.join(', ')}`);
  });
}

t.test('a delegation token, a record and a log of a stranger fake no line and hide nothing', async (t) => {
  const folder = tempDir(t);
  const token = join(folder, 'token');
  const link = {
    schema: 'gw.delegation.v2',
    delegation_id: 'root',
    org_id: 'o',
    workload_id: 'w',
    issued_by: HOSTILE,
    principal_id: HOSTILE,
    audience: HOSTILE,
    policy_bundle_id: HOSTILE,
    issued_at: '2026-01-01T00:00:00Z',
    expires_at: '2099-01-01T00:00:00Z',
    attribution: { defaults: { project_id: HOSTILE, labels: { [HOSTILE]: HOSTILE } } },
    sig: { alg: 'ed25519', kid: 'k', sig: Buffer.alloc(64).toString('base64') },
  };
  writeFileSync(token, Buffer.from(JSON.stringify(link)).toString('base64'));
  const inspected = await gw(['delegate', 'inspect', token]);
  t.match(inspected.out + inspected.err, 'evil');
  t.same(fakedIn(inspected.out + inspected.err), [], inspected.out + inspected.err);

  const record = join(folder, 'record.json');
  writeFileSync(record, JSON.stringify({ ...RECORD, record_hash: 'a'.repeat(64) }));
  for (const more of [[], ['--json']]) {
    const { out, err } = await gw(['verify', record, ...more]);
    t.same(fakedIn(out + err), [], out + err);
  }
  for (const words of [
    ['policy', 'explain', record],
    ['replay', record],
    ['policy', 'diff', record, record, '--records', record],
    ['risk', 'replay', '--records', record],
  ]) {
    const { out, err } = await gw(words);
    t.same(fakedIn(out + err), [], `${words.join(' ')}: ${out}${err}`);
  }
});

t.test('a policy and a suite of a stranger fake no line', async (t) => {
  const folder = tempDir(t);
  const text = yamlText(HOSTILE);
  const bundle = join(folder, 'bundle.yaml');
  writeFileSync(
    bundle,
    `schema: gw.policy_bundle.v1\nbundle_id: x\nversion: "1"\ninline_rules:\n  targets:\n    - id: all\n      when: {field: context.action.params.model, equals: ${text}}\n      effect: {decision: deny, reason: ${text}}\n`,
  );
  const request = join(folder, 'request.yaml');
  writeFileSync(request, `action: {type: ai.infer, method: POST, target_host: api.openai.com, params: {model: ${text}, messages: []}}\n`);
  const suite = join(folder, 'suite.yaml');
  writeFileSync(
    suite,
    `schema: gw.policy_tests.v1\npolicies: bundle.yaml\ncases:\n  - {name: ${text}, facts: {action.params.model: ${text}}, expect: {decision: allow, reason: ${text}}}\n`,
  );
  for (const words of [
    ['policy', 'check', bundle],
    ['policy', 'explain', request, '--policies', bundle],
    ['policy', 'test', suite, '--policies', bundle],
    ['policy', 'explain', suite, '--case', 'none'],
    ['policy', 'check', suite],
  ]) {
    const { out, err } = await gw(words);
    t.ok((out + err).length > 0);
    t.same(fakedIn(out + err), [], `${words.join(' ')}: ${out}${err}`);
    const { out: json } = await gw([...words, '--json']);
    t.same(hiddenIn(json), [], words.join(' '));
  }
  t.ok(HOSTILE.includes(`\n${FAKED}`), 'the text would fake a line');
});

t.test('a text with blanks or line breaks makes no further cell of a line', (t) => {
  const faked = 'bob)  POST api.openai.com gpt-4o-mini  0.01 USD  routine';
  const action = { method: 'POST', target_host: 'api.example', model: faked };
  const asked = { approval_id: 'a', created_at: 'b', status: 'pending', workload_id: 'w', caller_id: faked, action, reason: faked };
  const line = approvalLine(asked as unknown as Approval);
  t.equal(line.split(/ {2}/).length, 6, line);
  t.match(line, /bob\) \\u\{20\}POST/);
  const record = { started_at: '2026-01-01T00:00:00.000Z', decision: 'deny', model: faked, reason: faked, workload_id: 'w' };
  t.notMatch(callTable({ width: undefined, now: () => 0 }).line(callOfRecord(record), paintFor(false)), /bob\) {2}/);
  t.end();
});
