/*
 * Nobody takes from all (decisions 7.11, 7.12): a stranger and a key of one org do at once what wins them more than
 * their share (attacks.ts), against a gateway and its control plane. Another org goes on with its calls, approvals,
 * events and sessions as if nobody else were there; `/healthz` answers soon, memory and disk stay small.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CP_ADMIN_TOKEN, controlPlaneEnvironment, startControlPlaneProcess } from '../support/control-plane-process.ts';
import { connectThrough } from '../support/raw-clients.ts';
import { certificateOf, closeServer, listenOnFreePort, trackSockets } from '../support/tls-upstream.ts';
import type { AttackTally } from './attackers.ts';
import { ask, initialize, type Targets, type Told } from './attacks.ts';
import { type CleanUp, prove, sleep } from './checks.ts';
import { Prober } from './prober.ts';
import { residentMb, waitedForCoreMs } from './process-state.ts';
import { type Folders, ProofGateway, proofEnvironment, proofFolders } from './proof-gateway.ts';
import { proofSettings } from './settings.ts';

const SECONDS = { tenth: 60, full: 600, long: 3_600 };
const [AI_HOST, INBOX_HOST, ENDLESS_HOST, OTHER_HOST] = ['api.openai.com', 'inbox.example', 'endless.example', 'stub.example'];
const HOSTS = [AI_HOST, INBOX_HOST, ENDLESS_HOST, OTHER_HOST];
const [ATTACKING, NEIGHBOUR] = ['attacking', 'neighbour'];
/**
 * Of `/healthz`, on a machine whose cores are free; the share of the time for which the gateway had none stretches it.
 */
const HEALTH_MS = 200;
const MOST_WAITED = 0.9;
/** Resident; where cores are few for a minute, garbage is collected later than in ten. */
const MEMORY_MB = { tenth: 1_000, full: 700, long: 700 };
const DISK_BYTES_PER_SECOND = 1_000_000;
const EVERY_MS = 250;
/** Until the last event of the neighbour has come. */
const WAIT_MS = 60_000;
const BUNDLE = `schema: gw.policy_bundle.v1
bundle_id: proof
version: "1"
inline_rules:
  targets:
    - {id: no-host, when: {field: action.target_host, equals: denied.example}, effect: {decision: deny}}
    - {id: ask, when: {field: caller_id, starts_with: asker}, effect: {decision: require_approval}}
    - {id: all, effect: {decision: allow}}
`;

type Json = Readonly<Record<string, unknown>>;

interface Keys {
  readonly managementKey: string;
  readonly mcpKey: string;
  readonly workloadToken: string;
}

/** What became of the neighbour's own. */
interface Neighbour {
  readonly problems: string[];
  /** Records and approvals of which an event has to come. */
  readonly expected: Set<string>;
  calls: number;
  approvals: number;
  pings: number;
  /** Milliseconds that each call took. */
  readonly took: number[];
}

await prove(async (checks, cleanUp) => {
  const settings = proofSettings();
  const seconds = settings.seconds ?? SECONDS[settings.length];
  const mostMb = MEMORY_MB[settings.length];
  checks.note(`neighbours: ${seconds} s`);
  const folders = proofFolders(cleanUp);
  const upstream = await startUpstream(cleanUp);
  const controlPlane = await startControlPlaneProcess(cleanUp, controlPlaneEnvironment(cleanUp));
  const gateway = await ProofGateway.start(cleanUp, environmentOf(folders, upstream), folders.work);
  const neighbour = await keysOf(gateway, NEIGHBOUR);
  const attacking = await keysOf(gateway, ATTACKING);
  await receives(gateway, neighbour, INBOX_HOST);
  await receives(gateway, attacking, ENDLESS_HOST);
  const targets: Targets = {
    port: gateway.port,
    controlPlane: { grpcPort: controlPlane.grpcPort, httpPort: Number(new URL(controlPlane.url).port) },
    ...attacking,
    org: ATTACKING,
    claimedHost: OTHER_HOST,
  };

  const pids = { gateway: gateway.pid, 'control plane': controlPlane.child.pid ?? 0 };
  const disk = { gateway: folders.data, 'control plane': String(controlPlane.env['CP_DATA_DIR']) };
  const before = Object.values(disk).map(bytesBelow);
  const prober = new Prober(gateway.port, cleanUp);
  const started = performance.now();
  const waited = waitedForCoreMs(gateway.pid);
  const attackers = startAttackers(cleanUp, targets);
  const own: Neighbour = { problems: [], expected: new Set(), calls: 0, approvals: 0, pings: 0, took: [] };
  const peaks: Record<string, number> = { gateway: 0, 'control plane': 0 };
  const { mcpKey, workloadToken, managementKey } = neighbour;
  const session = String((await initialize({ port: gateway.port, mcpKey })).headers['mcp-session-id'] ?? '');
  const mine = { gateway, workloadToken, managementKey, mcpKey, session, upstreamCaPem: upstream.caPem };
  for (let turn = 0; performance.now() - started < seconds * 1_000; turn += 1) {
    await live(mine, own, turn);
    for (const [name, pid] of Object.entries(pids)) peaks[name] = Math.max(peaks[name] ?? 0, residentOf(pid));
    const alive = await fetch(`${controlPlane.url}/v1/orgs`, { headers: { 'CP-Admin-Token': CP_ADMIN_TOKEN } }).catch(() => undefined);
    if (alive?.status !== 200) own.problems.push(`the control plane's admin API answers ${alive?.status ?? 'nothing'}`);
    await sleep(EVERY_MS);
  }
  const phase = await prober.phase().catch(() => undefined);
  prober.stop();
  const noCore = Math.min(MOST_WAITED, Math.max(0, waitedForCoreMs(gateway.pid) - waited) / (performance.now() - started));
  const tally = await tallyOf(attackers);
  attackers.kill('SIGKILL');
  const lasted = (performance.now() - started) / 1_000;
  const grown = Object.values(disk).map((folder, at) => bytesBelow(folder) - (before[at] ?? 0));

  for (const [name, answers] of Object.entries(tally)) checks.note(`       ${name}: ${describe(answers)}`);
  checks.check(
    'every attack was carried out',
    Object.entries(tally).flatMap(([name, answers]) => (Object.keys(answers).length === 0 ? [name] : [])),
  );
  const limit = HEALTH_MS / (1 - noCore);
  const seen =
    phase === undefined
      ? 'it broke the connection of its prober'
      : `median ${phase.median.toFixed(1)}, 99th percentile ${phase.p99.toFixed(0)}, longest ${phase.longest.toFixed(0)}`;
  checks.check(
    `/healthz answers within ${limit.toFixed(0)} ms (no core for ${(noCore * 100).toFixed(0)} % of the time): ${seen}`,
    phase !== undefined && phase.p99 < limit ? [] : ['later, or not at all'],
  );
  for (const [name, peak] of Object.entries(peaks))
    checks.check(`the ${name} takes at most ${mostMb} MB: ${peak.toFixed(0)}`, peak > 0 && peak < mostMb ? [] : ['more, or it has ended']);
  for (const [at, name] of Object.keys(disk).entries()) {
    const rate = (grown[at] ?? 0) / lasted;
    checks.check(
      `the disk of the ${name} grows by less than 1 MB a second: ${(rate / 1e6).toFixed(2)}`,
      rate < DISK_BYTES_PER_SECOND ? [] : ['more'],
    );
  }
  own.took.sort((a, b) => a - b);
  checks.note(
    `       its calls took ${own.took[own.took.length >> 1]?.toFixed(0)} ms in the median, ${own.took.at(-1)?.toFixed(0)} at most`,
  );
  checks.check(
    `the neighbour is untouched: ${own.calls} calls, ${own.approvals} approvals, ${own.pings} requests of its session`,
    own.problems,
  );
  checks.check(`each of its ${own.expected.size} events has come`, await missing(upstream.received, own.expected));
  checks.check('the neighbour did something', own.calls > 0 && own.approvals > 0 && own.pings > 0 ? [] : ['nothing was asked']);
  const end = await gateway.stop();
  checks.check('SIGTERM ends the gateway in order', end.code === 0 ? [] : [`exit code ${end.code ?? end.signal}: ${end.stderr}`]);
});

interface Upstream {
  readonly caPem: string;
  env(caFile: string): Record<string, string>;
  /** What the neighbour's destination has received, as text. */
  readonly received: string[];
}

/** A provider, an inbox, and a receiver whose answer never ends. */
async function startUpstream(cleanUp: CleanUp): Promise<Upstream> {
  const { caPem, certPem, keyPem } = certificateOf('good', HOSTS);
  const received: string[] = [];
  const server = createServer({ cert: certPem, key: keyPem, keepAliveTimeout: 120_000 }, (incoming, response) => {
    let text = '';
    incoming.on('error', () => undefined);
    incoming.on('data', (piece: Buffer) => {
      text += piece.toString();
    });
    incoming.on('end', () => {
      const { host } = incoming.headers;
      if (host === ENDLESS_HOST) return endless(response.writeHead(200));
      if (host === INBOX_HOST) received.push(text);
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"usage":{"prompt_tokens":1,"completion_tokens":1}}');
    });
  });
  server.on('tlsClientError', () => undefined);
  server.on('clientError', (_error, socket) => socket.destroy());
  const port = await listenOnFreePort(server);
  const open = trackSockets(server);
  cleanUp.teardown(() => closeServer(server, open));
  const connectTo = HOSTS.map((host) => `${host}:443=127.0.0.1:${port}`).join(',');
  return { caPem, received, env: (caFile) => ({ GW_UPSTREAM_CONNECT_TO: connectTo, GW_UPSTREAM_CA_FILE: caFile }) };
}

function endless(response: ServerResponse): void {
  const piece = Buffer.alloc(65_536, 'x');
  response.on('error', () => undefined);
  const write = (): void => {
    while (!response.destroyed && response.write(piece));
  };
  response.on('drain', write);
  write();
}

function environmentOf(folders: Folders, upstream: Upstream): Record<string, string> {
  const policies = join(folders.root, 'policies');
  mkdirSync(policies);
  writeFileSync(join(policies, 'bundle.yaml'), BUNDLE);
  return { ...proofEnvironment(folders, upstream), GW_POLICIES_DIR: policies, GW_LOG_LEVEL: 'error', GW_STRANGER_RECORDS: '50/1000' };
}

async function admin(gateway: ProofGateway, path: string, body: object, method = 'POST'): Promise<Json> {
  const { status, text } = await gateway.ask(method, path, body);
  if (status > 299) throw new Error(`${path} is answered ${status}: ${text}`);
  return JSON.parse(text) as Json;
}

async function keysOf(gateway: ProofGateway, org: string): Promise<Keys> {
  const key = async (kind: string): Promise<string> =>
    String((await admin(gateway, '/v1/admin/mgmt-keys', { org_id: org, name: kind, kind, scopes: ['read', 'write'] }))['key']);
  const workload_id = `app-of-${org}`;
  await admin(gateway, '/v1/admin/workloads', { workload_id, org_id: org }, 'PUT');
  const issued = await admin(gateway, `/v1/admin/workloads/${workload_id}/token`, {});
  return { managementKey: await key('management'), mcpKey: await key('mcp'), workloadToken: String(issued['token']) };
}

/** Sends the org's events to a host. */
async function receives(gateway: ProofGateway, { managementKey }: Keys, host: string): Promise<void> {
  const body = { name: 'events', kind: 'webhook', config: { url: `https://${host}/` }, event_types: ['execution', 'approval'] };
  const { status, text } = await ask({
    port: gateway.port,
    method: 'POST',
    path: '/mgmt/v1/export/destinations',
    body,
    token: managementKey,
  });
  if (status !== '201') throw new Error(`a destination is answered ${status}: ${text}`);
}

function startAttackers(cleanUp: CleanUp, targets: Targets): ChildProcess {
  const child = fork(fileURLToPath(new URL('./attackers.js', import.meta.url)), [JSON.stringify(targets)]);
  cleanUp.teardown(() => child.kill('SIGKILL'));
  return child;
}

function tallyOf(child: ChildProcess): Promise<AttackTally> {
  return new Promise((resolve, reject) => {
    child.once('message', (tally) => resolve(tally as AttackTally));
    child.once('exit', () => reject(new Error('the attackers ended')));
    child.send('tally');
  });
}

interface Mine extends Keys {
  readonly gateway: ProofGateway;
  readonly session: string;
  readonly upstreamCaPem: string;
}

/**
 * One turn of the neighbour's day: a call, one that a person allows, a look at a session, a call to a host that is no
 * provider.
 */
async function live(mine: Mine, own: Neighbour, turn: number): Promise<void> {
  const { gateway, workloadToken, managementKey, mcpKey, session } = mine;
  const { port } = gateway;
  const wrong = (what: string, told: Told): void =>
    void own.problems.push(`turn ${turn}, ${what}: ${told.status} ${told.text.slice(0, 200)}`);
  const execute = (caller_id: string): Promise<Told> => {
    const params = { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'x' }], user: `turn ${turn}` };
    const action = { type: 'ai.infer', method: 'POST', target_host: AI_HOST, target_path: '/v1/chat/completions', params };
    const body = {
      schema: 'gw.action_request.v2',
      org_id: NEIGHBOUR,
      workload_id: `app-of-${NEIGHBOUR}`,
      caller_id,
      credential_hint: 'k',
      action,
    };
    return ask({ port, method: 'POST', path: '/v1/actions:execute', body, token: workloadToken });
  };
  const manage = (method: string, path: string, body?: object): Promise<Told> =>
    ask({ port, method, path: `/mgmt/v1/${path}`, token: managementKey, ...(body === undefined ? {} : { body }) });

  const started = performance.now();
  const called = await execute('somebody');
  own.took.push(performance.now() - started);
  own.calls += 1;
  if (called.status === '200') own.expected.add(String(parsed(called)['record_id']));
  else wrong('a call', called);

  const pinged = await ask({
    port,
    method: 'POST',
    path: '/mcp',
    body: { jsonrpc: '2.0', id: turn, method: 'ping' },
    token: mcpKey,
    headers: { accept: 'application/json, text/event-stream', 'mcp-session-id': session },
  });
  own.pings += 1;
  if (pinged.status !== '200') wrong('a ping of its session', pinged);

  const asked = await execute('asker');
  const id = String(parsed(asked)['approval_id']);
  if (asked.status !== '202') return wrong('a call that waits for a person', asked);
  const listed = await manage('GET', 'approvals?status=pending&limit=5');
  const items = (parsed(listed)['data'] ?? []) as Json[];
  if (!items.some((item) => item['approval_id'] === id)) return wrong('the list of approvals', listed);
  const approved = await manage('POST', `approvals/${id}/approve`, {});
  if (approved.status !== '200') return wrong('an approval', approved);
  const executed = await execute('asker');
  own.approvals += 1;
  if (executed.status === '200') own.expected.add(String(parsed(executed)['record_id']));
  else wrong('a call that was approved', executed);

  const tunnel = await connectThrough(port, `${OTHER_HOST}:443`, mine.upstreamCaPem).catch((error: unknown) => String(error));
  if (typeof tunnel === 'string') own.problems.push(`turn ${turn}, a host that is no provider: ${tunnel}`);
  else tunnel.destroy();
}

function parsed({ text }: Told): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return {};
  }
}

/** Those of the ids that no event names when all has had time to come. */
async function missing(received: readonly string[], expected: ReadonlySet<string>): Promise<string[]> {
  for (const until = performance.now() + WAIT_MS; ; await sleep(200)) {
    const text = received.join('\n');
    const absent = [...expected].filter((id) => !text.includes(id));
    if (absent.length === 0 || performance.now() > until) return absent;
  }
}

function residentOf(pid: number): number {
  try {
    return residentMb(pid);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/** What the files below a folder take; one that is removed meanwhile takes nothing. */
function bytesBelow(folder: string): number {
  let sum = 0;
  for (const entry of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    const found = statSync(join(folder, entry), { throwIfNoEntry: false });
    if (found?.isFile()) sum += found.size;
  }
  return sum;
}

function describe(answers: Readonly<Record<string, number>>): string {
  const rows = Object.entries(answers).sort(([, a], [, b]) => b - a);
  return rows
    .slice(0, 6)
    .map(([answer, count]) => `${count} × ${answer}`)
    .join(', ');
}
