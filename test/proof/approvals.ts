/*
 * SIGKILL while requests wait, are approved and come again, several times each at once, and while calls wait on their
 * connections: an approval is spent or not,
 * never twice, a spent one has its record, what its provider has executed was approved, and what a client was told of
 * is still there (decision 9.1).
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { join } from 'node:path';
import { certificateOf, closeServer, listenOnFreePort, trackSockets } from '../support/tls-upstream.ts';
import { type Checks, type CleanUp, prove, sleep } from './checks.ts';
import { AI_HOST } from './paced-upstream.ts';
import { type Folders, ProofGateway, proofEnvironment, proofFolders } from './proof-gateway.ts';
import { Seeded } from './seeded.ts';
import { proofSettings } from './settings.ts';

/** Every second one is of calls that wait on their connections. */
const ROUNDS = { tenth: 4, full: 30, long: 30 };
const LANES = 6;
/** Of one request, at the same time. */
const COPIES = 4;
const BUNDLE = `schema: gw.policy_bundle.v1
bundle_id: proof
version: "1"
inline_rules:
  targets: [{id: ask, effect: {decision: require_approval, reason: ask first}}]
`;

type Json = Readonly<Record<string, unknown>>;

interface Told {
  /** Approvals that a client was told of, by the tag of its request. */
  readonly approvals: Map<string, Set<string>>;
  /** Records of calls that a client saw executed. */
  readonly records: Set<string>;
}

interface Findings {
  readonly answers: string[];
  readonly lost: string[];
  readonly twice: string[];
  readonly unrecorded: string[];
  readonly unasked: string[];
}

await prove(async (checks, cleanUp) => {
  const settings = proofSettings();
  const rounds = settings.rounds ?? ROUNDS[settings.length];
  checks.note(`approvals: ${rounds} rounds, ${LANES} lanes of ${COPIES}, seed ${settings.seed}`);
  const folders = proofFolders(cleanUp);
  const { env, executed } = await startUpstream(cleanUp, folders);
  const told: Told = { approvals: new Map(), records: new Set() };
  const found: Findings = { answers: [], lost: [], twice: [], unrecorded: [], unasked: [] };
  let spent = 0;
  for (let round = 1; round <= rounds; round += 1) {
    const isHeld = round % 2 === 0;
    const gateway = await ProofGateway.start(cleanUp, isHeld ? { ...env, GW_APPROVAL_HOLD: '4m' } : env, folders.work);
    const lane = isHeld ? workHeld : work;
    const random = new Seeded(`${settings.seed}/${round}`);
    let killed = false;
    const lanes = Array.from({ length: LANES }, (_, at) => lane(gateway, `r${round}-l${at}`, told, found, () => killed));
    await sleep(random.between(150, 900));
    killed = true;
    await gateway.kill();
    await Promise.all(lanes);
    const next = await ProofGateway.start(cleanUp, env, folders.work);
    spent = await audit(next, told, executed, found);
    await next.kill();
  }
  report(checks, { executed, told, found, spent });
});

async function startUpstream(cleanUp: CleanUp, folders: Folders): Promise<{ env: Record<string, string>; executed: Map<string, number> }> {
  const { caPem, certPem, keyPem } = certificateOf('good', [AI_HOST]);
  const executed = new Map<string, number>();
  const server = createServer({ cert: certPem, key: keyPem, keepAliveTimeout: 120_000 }, (request, response) => {
    let text = '';
    request.on('error', () => undefined);
    request.on('data', (piece: Buffer) => {
      text += piece.toString();
    });
    request.on('end', () => {
      const { user } = JSON.parse(text) as { user: string };
      executed.set(user, (executed.get(user) ?? 0) + 1);
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"usage":{"prompt_tokens":1,"completion_tokens":1}}');
    });
  });
  server.on('tlsClientError', () => undefined);
  server.on('clientError', (_error, socket) => socket.destroy());
  const port = await listenOnFreePort(server);
  const open = trackSockets(server);
  cleanUp.teardown(() => closeServer(server, open));
  const upstream = {
    caPem,
    env: (caFile: string) => ({ GW_UPSTREAM_CONNECT_TO: `${AI_HOST}:443=127.0.0.1:${port}`, GW_UPSTREAM_CA_FILE: caFile }),
  };
  const policies = join(folders.root, 'policies');
  mkdirSync(policies);
  writeFileSync(join(policies, 'bundle.yaml'), BUNDLE);
  return { env: { ...proofEnvironment(folders, upstream), GW_POLICIES_DIR: policies }, executed };
}

/** Asks, approves and asks again, until the gateway is gone. */
async function work(gateway: ProofGateway, lane: string, told: Told, found: Findings, isKilled: () => boolean): Promise<void> {
  for (let at = 0; !isKilled(); at += 1) {
    const tag = `${lane}-${at}`;
    const asked = await together(gateway, tag);
    if (asked === undefined) return;
    const ids = new Set(asked.map(({ body }) => String(body['approval_id'])));
    if (ids.size !== 1 || asked.some(({ status }) => status !== 202)) found.answers.push(`${tag}: ${JSON.stringify(asked)}`);
    const [id = ''] = ids;
    note(told, tag, id);
    const approved = await gateway.ask('POST', `/v1/admin/approvals/${id}/approve`, {}).catch(() => undefined);
    if (approved === undefined) return;
    const again = await together(gateway, tag);
    if (again === undefined) return;
    const ran = again.filter(({ status }) => status === 200);
    if (ran.length !== 1) found.answers.push(`${tag}: ${ran.length} of ${again.length} were executed`);
    for (const { body } of ran) told.records.add(String(body['record_id']));
    for (const { status, body } of again) if (status === 202) note(told, tag, String(body['approval_id']));
  }
}

/** Asks, and gives what waits on its connection until each copy was sent. */
async function workHeld(gateway: ProofGateway, lane: string, told: Told, found: Findings, isKilled: () => boolean): Promise<void> {
  for (let at = 0; !isKilled(); at += 1) {
    const tag = `${lane}-${at}`;
    let isOver = false;
    const asked = together(gateway, tag).finally(() => {
      isOver = true;
    });
    while (!isOver && !isKilled()) await approveWaiting(gateway, tag, told);
    const answers = await asked;
    if (answers === undefined) return;
    const refused = answers.filter(({ status }) => status !== 200);
    if (refused.length > 0) found.answers.push(`${tag}: ${JSON.stringify(refused)}`);
    for (const { body } of answers) told.records.add(String(body['record_id']));
  }
}

/** A gateway that is gone is seen by the calls that it held. */
async function approveWaiting(gateway: ProofGateway, tag: string, told: Told): Promise<void> {
  try {
    const { text } = await gateway.get('/v1/admin/approvals?status=pending&limit=100');
    const { items } = JSON.parse(text) as { readonly items: readonly Json[] };
    for (const { approval_id: id } of items.filter(({ caller_id: caller }) => caller === tag)) {
      note(told, tag, String(id));
      await gateway.ask('POST', `/v1/admin/approvals/${String(id)}/approve`, {});
    }
  } catch {
    await sleep(5);
  }
}

function note(told: Told, tag: string, id: string): void {
  const ids = told.approvals.get(tag) ?? new Set();
  told.approvals.set(tag, ids.add(id));
}

/** The same request several times at once; undefined where one of them got no answer, because the gateway is gone. */
async function together(
  gateway: ProofGateway,
  tag: string,
): Promise<readonly { readonly status: number; readonly body: Json }[] | undefined> {
  const action = { type: 'ai.infer', method: 'POST', target_host: AI_HOST, params: { model: 'gpt-4o-mini', messages: [], user: tag } };
  const envelope = {
    schema: 'gw.action_request.v2',
    org_id: 'default',
    workload_id: 'default',
    caller_id: tag,
    credential_hint: 'k',
    action,
  };
  try {
    const answers = await Promise.all(Array.from({ length: COPIES }, () => gateway.ask('POST', '/v1/actions:execute', envelope)));
    return answers.map(({ status, text }) => ({ status, body: JSON.parse(text) as Json }));
  } catch {
    return undefined;
  }
}

/**
 * Weighs everything that is stored against what clients and provider have seen.
 * @returns how many approvals are spent
 */
async function audit(gateway: ProofGateway, told: Told, executed: ReadonlyMap<string, number>, found: Findings): Promise<number> {
  const stored = new Map<string, Json>();
  for (let query = '?limit=500'; query !== ''; ) {
    const { items, next_page_token: next } = JSON.parse((await gateway.get(`/v1/admin/approvals${query}`)).text) as {
      items: Json[];
      next_page_token: string | null;
    };
    for (const item of items) stored.set(String(item['approval_id']), item);
    query = next === null ? '' : `?limit=500&page_token=${next}`;
  }
  const spent = [...stored.values()].filter((approval) => approval['executed_at'] !== undefined);
  const executions = new Map<string, number>();
  for (const approval of spent) {
    const record = await gateway.get(`/v1/records/${String(approval['executed_record_id'])}`);
    const named = record.status === 200 ? (JSON.parse(record.text) as Json)['approval_id'] : record.status;
    if (named !== approval['approval_id']) found.unrecorded.push(`${String(approval['approval_id'])}: ${String(named)}`);
    const hash = String(approval['action_hash']);
    executions.set(hash, (executions.get(hash) ?? 0) + 1);
  }
  for (const [tag, ids] of told.approvals) {
    const known = [...ids].map((id) => stored.get(id)).filter((approval) => approval !== undefined);
    if (known.length < ids.size) found.lost.push(tag);
    const count = executed.get(tag) ?? 0;
    const allowed = executions.get(hashOf(known)) ?? 0;
    if (count > allowed) found.twice.push(`${tag}: executed ${count} times by ${allowed} approvals`);
  }
  for (const tag of executed.keys()) if (!told.approvals.has(tag)) found.unasked.push(tag);
  for (const id of told.records) {
    const { status } = await gateway.get(`/v1/records/${id}`);
    if (status !== 200) found.lost.push(`record ${id}`);
  }
  return spent.length;
}

function report(
  checks: Checks,
  { executed, told, found, spent }: { executed: ReadonlyMap<string, number>; told: Told; found: Findings; spent: number },
): void {
  checks.note(`       ${told.approvals.size} requests were asked about, ${spent} approvals are spent, ${executed.size} were executed`);
  checks.check(
    'of copies that come at once one is executed, and the others share one approval; what waits on its connection is sent when it was approved',
    found.answers,
  );
  checks.check('what a client was told of is there after the next start', found.lost);
  checks.check('nothing was executed more often than it was approved', found.twice);
  checks.check('an approval that is spent has its record', found.unrecorded);
  checks.check('nothing was executed that nobody was asked about', found.unasked);
  checks.check('the proof has proven something', executed.size > 0 && spent > 0 ? [] : ['nothing was executed']);
}

function hashOf([first]: readonly Json[]): string {
  return String(first?.['action_hash']);
}
