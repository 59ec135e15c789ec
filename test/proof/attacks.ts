/*
 * What a stranger, and a key of one org, do to have for themselves what all share: each row is one lane, which begins
 * again as soon as it was answered or ended.
 */
import { once } from 'node:events';
import { request } from 'node:http';
import { connect as connectH2 } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { gzipSync } from 'node:zlib';
import { sleep } from './checks.ts';

/** Where the attackers find their victims, and what the key of their own org is. */
export interface Targets {
  readonly port: number;
  readonly controlPlane: { readonly grpcPort: number; readonly httpPort: number };
  /** A management key and an MCP key of the attackers' org, and a token of its workload. */
  readonly managementKey: string;
  readonly mcpKey: string;
  readonly workloadToken: string;
  readonly org: string;
  /** A host that others call by, and that the attackers' org claims. */
  readonly claimedHost: string;
}

export interface Attack {
  readonly name: string;
  /** Lanes at a time. */
  readonly lanes: number;
  /** @param count of this lane, from 0 on @returns what it was answered, for the tally */
  once(targets: Targets, count: number): Promise<string>;
}

/** Where the attackers are: an address of this machine, and not that of others. */
export const ATTACKERS_ADDRESS = '127.0.0.2';
/** How long an unread answer, a silent connection or a held tunnel is kept open by the attacker. */
const HELD_MS = 5_000;
/** As long as they may be. */
const LONG_NAME = 'n'.repeat(200);
const LONG_PATH = `/v1/${'p'.repeat(8_000)}`;
const LONG_LABELS = Object.fromEntries(Array.from({ length: 32 }, (_, at) => [`l${at}`, LONG_NAME]));
const PIPELINED = 32;
const CONNECTIONS = 20;
const OVERLAYS = [
  (count: number) => overlayOf(2_900, () => `a{0,900}b{0,900}c{0,900}d{0,900}e{0,${900 - (count % 100)}}`),
  (count: number) => overlayOf(4_000, (at) => `(x${count}y${at}{0,30}){0,30}`),
  (count: number) => overlayOf(220, (at) => `(k${count}q${at}{0,30}){0,30}`),
  () => ':\n'.repeat(260_000),
  () => 'abcd:\n'.repeat(86_000),
];

export const ATTACKS: readonly Attack[] = [
  {
    name: 'answers that nobody reads',
    lanes: 2,
    once: ({ port }) => unread(port, `GET /v1/proxy/ca-bundle.crt HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`.repeat(PIPELINED)),
  },
  {
    name: 'roots that nobody reads, of the control plane',
    lanes: 1,
    once: ({ controlPlane }) => unread(controlPlane.httpPort, `GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`.repeat(1_000)),
  },
  {
    name: "a stranger's denied calls with long names",
    lanes: 4,
    once: (targets, count) =>
      execute(targets, {
        caller_id: `c${count}${LONG_NAME}`,
        model: LONG_NAME,
        host: 'denied.example',
        path: LONG_PATH,
        labels: LONG_LABELS,
      }),
  },
  {
    name: 'callers, workloads and projects that are made up',
    lanes: 2,
    once: (targets, count) =>
      execute(targets, {
        caller_id: `made-${process.pid}-${count}`,
        workload_id: `w-${count}`,
        model: `m-${count}`,
        host: 'denied.example',
      }),
  },
  {
    name: 'API keys that are made up',
    lanes: 2,
    once: (targets, count) =>
      execute(targets, { caller_id: 'c', model: 'm', host: 'denied.example', token: `gwk_${String(count).padStart(43, 'A')}` }),
  },
  { name: 'tunnels that are held', lanes: 1, once: ({ port }, count) => heldTunnels(port, count) },
  { name: 'bodies in pieces of a byte', lanes: 1, once: ({ port }) => bytewise(port) },
  {
    name: 'overlays of patterns',
    lanes: 1,
    once: (targets, count) => manage(targets, 'PUT', 'policies', { level: 'org', bundle_yaml: OVERLAYS[count % OVERLAYS.length]?.(count) }),
  },
  { name: 'batches of reports, read and left', lanes: 6, once: (targets, count) => batch(targets, count % 2 === 0) },
  { name: 'sessions of MCP', lanes: 4, once: (targets) => initialize(targets, ATTACKERS_ADDRESS).then(({ status }) => status) },
  {
    name: 'approvals that wait',
    lanes: 2,
    once: (targets, count) =>
      execute(targets, { caller_id: `asker-${count % 100}`, model: 'gpt-4o-mini', user: `u${count}`, token: targets.workloadToken }),
  },
  {
    name: 'calls whose events the org wants',
    lanes: 2,
    once: (targets, count) => execute(targets, { caller_id: `k${count % 50}`, model: 'gpt-4o-mini', token: targets.workloadToken }),
  },
  {
    name: 'workloads, limits, projects and credentials without end',
    lanes: 2,
    once: (targets, count) => {
      const rows: readonly (readonly [string, string, object])[] = [
        ['PUT', 'workloads', { workload_id: `w${process.pid}-${count}` }],
        ['POST', 'budgets/limits', { scope: 'workload', scope_id: `w${count}`, limit_usd: '1' }],
        ['POST', 'projects', { project_id: `p${count}`, display_name: 'p' }],
        ['PUT', 'credentials', { id: `c${count}`, provider: 'openai', mode: 'alias', secret: 'sk-0123456789' }],
        ['POST', 'keys', { name: `k${count}`, kind: 'mcp', scopes: ['read'] }],
        ['PUT', 'policies', { level: 'node', node_id: `node-${count}`, bundle_yaml: overlayOf(1, () => 'a') }],
      ];
      const [method, path, body] = rows[count % rows.length] ?? ['GET', 'keys', {}];
      return manage(targets, method, path, body);
    },
  },
  {
    name: 'a connector that claims the host of others',
    lanes: 1,
    once: (targets, count) =>
      manage(targets, 'POST', 'connectors', {
        name: `c${count}`,
        base_url: `https://${targets.claimedHost}/v1`,
        auth_mode: 'bearer',
        enabled: true,
      }),
  },
  { name: 'messages before identity', lanes: 2, once: ({ controlPlane }, count) => enroll(controlPlane.grpcPort, count % 2 === 0) },
  {
    name: 'connections that say nothing',
    lanes: 1,
    once: ({ controlPlane }, count) => silent(count % 2 === 0 ? controlPlane.grpcPort : controlPlane.httpPort, 400),
  },
];

function overlayOf(rules: number, pattern: (at: number) => string): string {
  const lines = Array.from(
    { length: rules },
    (_, at) => `    - {id: r${at}, when: {field: caller_id, matches: '${pattern(at)}'}, effect: {decision: allow}}\n`,
  );
  return `schema: gw.policy_bundle.v1\nbundle_id: attack\nversion: "1"\ninline_rules:\n  targets:\n${lines.join('')}    - {id: rest, effect: {decision: allow}}\n`;
}

interface Call {
  readonly caller_id: string;
  readonly model: string;
  readonly host?: string;
  readonly token?: string;
  readonly user?: string;
  readonly workload_id?: string;
  readonly path?: string;
  readonly labels?: Readonly<Record<string, string>>;
}

function execute({ port, org }: Targets, call: Call): Promise<string> {
  const { caller_id, model, host = 'api.openai.com', token, user, workload_id = 'default', path = '/v1/chat/completions', labels } = call;
  const params = { model, messages: [{ role: 'user', content: 'x' }], ...(user === undefined ? {} : { user }) };
  const action = { type: 'ai.infer', method: 'POST', target_host: host, target_path: path, params };
  const envelope = {
    schema: 'gw.action_request.v2',
    org_id: org,
    workload_id: token?.startsWith('gwt_') ? `app-of-${org}` : workload_id,
    caller_id,
    ...(labels === undefined ? {} : { attribution: { labels } }),
    credential_hint: 'sk-proof',
    action,
  };
  return ask({
    port,
    localAddress: ATTACKERS_ADDRESS,
    method: 'POST',
    path: '/v1/actions:execute',
    body: envelope,
    ...(token === undefined ? {} : { token }),
  }).then(({ status }) => status);
}

function manage({ port, managementKey }: Targets, method: string, path: string, body: object): Promise<string> {
  return ask({ port, method, path: `/mgmt/v1/${path}`, body, token: managementKey, localAddress: ATTACKERS_ADDRESS }).then(
    ({ status }) => status,
  );
}

interface Asked {
  readonly port: number;
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  readonly token?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Address of this machine that it comes from. */
  readonly localAddress?: string;
}

export interface Told {
  /** Or what broke the connection. */
  readonly status: string;
  readonly text: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** One request on a connection of its own. */
export function ask({ port, method, path, body, token, headers = {}, localAddress = '127.0.0.1' }: Asked): Promise<Told> {
  const text = body === undefined ? undefined : JSON.stringify(body);
  return new Promise((resolve) => {
    const broken = (error: NodeJS.ErrnoException): void => resolve({ status: error.code ?? error.message, text: '', headers: {} });
    const call = request({
      port,
      host: '127.0.0.1',
      localAddress,
      method,
      path,
      agent: false,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(text === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
        ...headers,
      },
    });
    call.on('error', broken);
    call.on('response', (response) => {
      let said = '';
      response.setEncoding('utf8').on('data', (piece: string) => {
        said += piece;
      });
      response.on('error', broken);
      response.on('end', () => resolve({ status: String(response.statusCode), text: said, headers: response.headers }));
    });
    call.end(text);
  });
}

async function opening(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', localAddress: ATTACKERS_ADDRESS });
  await once(socket, 'connect');
  return socket;
}

async function opened(port: number, count: number): Promise<Socket[]> {
  const sockets: Socket[] = [];
  for (let at = 0; at < count; at += 1) {
    const socket = await opening(port).catch(() => undefined);
    if (socket === undefined) break;
    socket.on('error', () => undefined);
    sockets.push(socket);
  }
  return sockets;
}

/** Asks on some connections, reads nothing, and leaves after a while. */
async function unread(port: number, text: string): Promise<string> {
  const sockets = await opened(port, CONNECTIONS);
  for (const socket of sockets) socket.pause().write(text);
  await sleep(HELD_MS);
  for (const socket of sockets) socket.destroy();
  return `${sockets.length} held`;
}

async function silent(port: number, count: number): Promise<string> {
  const sockets = await opened(port, count);
  await sleep(HELD_MS);
  const kept = sockets.filter((socket) => !socket.destroyed).length;
  for (const socket of sockets) socket.destroy();
  return `${kept > 0 ? 'some' : 'none'} kept`;
}

async function heldTunnels(port: number, count: number): Promise<string> {
  const sockets = await opened(port, 200);
  for (const [at, socket] of sockets.entries()) {
    const host = `h${count}-${at}.example`;
    socket.write(`CONNECT ${host}:443 HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
  }
  await sleep(HELD_MS);
  for (const socket of sockets) socket.destroy();
  return 'held';
}

async function bytewise(port: number): Promise<string> {
  const socket = await opening(port);
  socket.on('error', () => undefined);
  socket.write(
    'POST /v1/actions:execute HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n',
  );
  for (let sent = 0; sent < 200 && !socket.destroyed; sent += 1) {
    if (!socket.write('1\r\n \r\n'.repeat(1_000)))
      await Promise.race([once(socket, 'drain'), once(socket, 'close')]).catch(() => undefined);
    await sleep(1);
  }
  socket.destroy();
  return 'sent';
}

function rpc(id: number, method: string, params: object): object {
  return { jsonrpc: '2.0', id, method, params };
}

const MCP_FORMS = { accept: 'application/json, text/event-stream' };

/** Begins a session. */
export function initialize({ port, mcpKey }: Pick<Targets, 'mcpKey' | 'port'>, localAddress?: string): Promise<Told> {
  const params = { protocolVersion: '2025-03-26', capabilities: {}, clientInfo: { name: 'proof', version: '1' } };
  const asked = { port, method: 'POST', path: '/mcp', body: rpc(1, 'initialize', params), token: mcpKey, headers: MCP_FORMS };
  return ask(localAddress === undefined ? asked : { ...asked, localAddress });
}

/** A hundred reports in one message; the client leaves before they are answered, or stays. */
async function batch(targets: Targets, leaves: boolean): Promise<string> {
  const begun = await initialize(targets, ATTACKERS_ADDRESS);
  const session = String(begun.headers['mcp-session-id'] ?? '');
  const members = Array.from({ length: 100 }, (_, id) => rpc(id, 'tools/call', { name: 'get_billing_summary', arguments: {} }));
  const { port, mcpKey } = targets;
  const asked = { port, method: 'POST', path: '/mcp', body: members, token: mcpKey, headers: { ...MCP_FORMS, 'mcp-session-id': session } };
  if (!leaves) return ask({ ...asked, localAddress: ATTACKERS_ADDRESS }).then(({ status }) => status);
  const socket = await opening(port);
  socket.on('error', () => undefined);
  const text = JSON.stringify(members);
  socket.write(
    `POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${mcpKey}\r\nContent-Type: application/json\r\nAccept: ${MCP_FORMS.accept}\r\nMcp-Session-Id: ${session}\r\nContent-Length: ${text.length}\r\n\r\n${text}`,
  );
  await sleep(20);
  socket.destroy();
  return 'left';
}

/** Two million empty texts as a gRPC message: a tag and a length of zero each. */
const EMPTY_TEXTS = Buffer.alloc(4_000_000);
for (let at = 0; at < EMPTY_TEXTS.length; at += 2) EMPTY_TEXTS[at] = 0x0a;
const [PLAIN, COMPRESSED] = [framed(0, EMPTY_TEXTS), framed(1, gzipSync(EMPTY_TEXTS))];

function framed(flag: number, message: Uint8Array): Buffer {
  const head = Buffer.alloc(5);
  head[0] = flag;
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

/** Calls of the control plane with such a message, as it is or in gzip, without a certificate. */
async function enroll(port: number, isCompressed: boolean): Promise<string> {
  const frame = isCompressed ? COMPRESSED : PLAIN;
  const path = isCompressed ? '/gw.control_plane.v1.ControlPlane/SubmitHashes' : '/gw.control_plane.v1.Enrolment/Enroll';
  const secured = connectTls({ socket: await opening(port), ALPNProtocols: ['h2'], rejectUnauthorized: false });
  secured.on('error', () => undefined);
  const session = connectH2(`https://127.0.0.1:${port}`, { createConnection: () => secured });
  try {
    return await new Promise((resolve) => {
      const over = (what: string) => (): void => resolve(what);
      session.on('error', over('broken'));
      session.on('close', over('closed'));
      const stream = session.request({
        ':method': 'POST',
        ':path': path,
        'content-type': 'application/grpc',
        te: 'trailers',
        ...(isCompressed ? { 'grpc-encoding': 'gzip' } : {}),
      });
      stream.on('error', over('reset'));
      stream.on('response', (headers) => resolve(`grpc ${String(headers['grpc-status'] ?? headers[':status'])}`));
      stream.on('close', over('reset'));
      stream.end(frame);
    });
  } finally {
    session.destroy();
  }
}
