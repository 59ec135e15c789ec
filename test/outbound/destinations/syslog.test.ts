// Syslog: how a message is framed, escaped and kept short, and what becomes of a server that breaks off.
import { createServer, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import t from 'tap';
import { readSyslogAddress } from '../../../src/base/lib/web-address.ts';
import { cefLine } from '../../../src/outbound/destinations/cef-line.ts';
import type { ExportedEvent } from '../../../src/outbound/destinations/event-envelope.ts';
import { severityOf, syslogMessage } from '../../../src/outbound/destinations/syslog-message.ts';
import { type SyslogTarget, sendToSyslog } from '../../../src/outbound/destinations/syslog-sender.ts';
import { createUpstream } from '../../../src/outbound/net/create-upstream.ts';
import { SideDoor } from '../../../src/outbound/net/side-door.ts';
import { testCa } from '../../support/certificates.ts';
import { runningClock } from '../../support/fake-clock.ts';
import type { HasTeardown } from '../../support/temp-dir.ts';

function event(payload: Record<string, unknown>, type = 'execution'): ExportedEvent {
  return { id: 'evt_1', envelope: { event_type: type, event_time: '2026-11-24T12:00:00.000Z', org_id: 'acme', workload_id: 'w', payload } };
}

function doorOf(t: HasTeardown, caFile?: string): SideDoor {
  const upstream = createUpstream({
    clock: runningClock,
    headersTimeoutMs: 5_000,
    idleTimeoutMs: 5_000,
    ...(caFile === undefined ? {} : { caFile }),
  });
  t.teardown(() => upstream.close());
  return new SideDoor(upstream, runningClock);
}

function target(port: number, transport: SyslogTarget['transport']): SyslogTarget {
  return { transport, authority: { host: 'localhost', port }, format: 'rfc5424', operatorOwn: true };
}

/** Why something was not sent. */
async function faultOf(sent: Promise<void>): Promise<unknown> {
  return sent.then(
    () => 'it was sent',
    (error: unknown) => error,
  );
}

async function listen(t: HasTeardown, server: ReturnType<typeof createServer>): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => new Promise((resolve) => server.close(resolve)));
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

t.test('severity follows what happened', async (t) => {
  const cases: readonly (readonly [string, Record<string, unknown>, number])[] = [
    ['execution', { decision: 'allow' }, 6],
    ['execution', { decision: 'deny' }, 5],
    ['execution', { decision: 'rate_limit' }, 5],
    ['execution', { decision: 'error' }, 3],
    ['approval', {}, 5],
    ['quarantine', {}, 4],
    ['risk_alert', {}, 1],
    ['audit', {}, 5],
  ];
  for (const [type, payload, severity] of cases)
    t.equal(severityOf(event(payload, type).envelope), severity, `${type} ${JSON.stringify(payload)}`);
});

t.test('what is too long loses its largest members, says which, and keeps what it can be looked up by', async (t) => {
  const payload = {
    record_id: 'r',
    record_hash: 'h'.repeat(64),
    decision: 'deny',
    labels: 'l'.repeat(9_000),
    policy_trace: 'p'.repeat(3_000),
    model: 'gpt',
  };
  const message = syslogMessage(event(payload), 'node', 'rfc5424', 1_400);
  t.ok(message.length <= 1_400);
  const read = JSON.parse(message.toString().replace(/^.*?\] /, '')) as { payload: Record<string, unknown> };
  t.match(read.payload, { record_id: 'r', record_hash: payload.record_hash, model: 'gpt', dropped: ['labels', 'policy_trace'] });
  t.match(
    syslogMessage(event({ record_id: 'r' }), 'node', 'rfc5424', 8_000).toString(),
    /^<109>1 2026-11-24T12:00:00\.000Z node ai-request-gateway - execution \[gw@32473 event_id="evt_1"/,
  );
  t.ok(syslogMessage(event({ record_id: 'é'.repeat(3_000) }), 'a host\n', 'rfc5424', 1_400).length <= 1_400);
});

t.test('CEF: pipes, equal signs, backslashes and line ends are escaped', async (t) => {
  const odd = event({ decision: 'deny', reason: 'a=b\\c\nd|e', target_host: 'h', action_method: 'POST', record_id: 'r' }, 'a|b\\c');
  t.equal(
    cefLine(odd, 5),
    'CEF:0|AI Request Gateway|ai-request-gateway|1|a\\|b\\\\c|a\\|b\\\\c deny|4|rt=1795521600000 externalId=evt_1 act=deny dhost=h requestMethod=POST reason=a\\=b\\\\c\\nd|e flexString1Label=recordId flexString1=r cs1Label=org cs1=acme cs2Label=workload cs2=w',
  );
});

t.test('CEF: a change of a person says who, what, of what and from where', async (t) => {
  const change = event(
    {
      audit_id: 'a1',
      principal: { kind: 'management_key', id: 'k1', name: 'olga' },
      operation: 'mgmt.keys.create',
      object: 'k2',
      object_name: 'omar',
      from: '192.0.2.7',
    },
    'audit',
  );
  t.match(
    cefLine(change, 5),
    /\|audit\|audit mgmt\.keys\.create\|4\|.* act=mgmt\.keys\.create src=192\.0\.2\.7 suser=olga .*Label=auditId cs\d=a1 .*Label=object cs\d=k2 .*Label=objectName cs\d=omar$/,
  );
  t.match(cefLine(event({ approval_id: 'p', decided_by: 'olga', decision: 'approved' }, 'approval'), 5), /Label=decidedBy cs\d=olga/);
});

t.test('addresses', async (t) => {
  t.match(readSyslogAddress('udp://siem.example.com:514'), { transport: 'udp', authority: { host: 'siem.example.com', port: 514 } });
  t.match(readSyslogAddress('tls://[::1]'), { transport: 'tls', authority: { port: 6514 } });
  for (const bad of ['siem:514', 'tcp://siem', 'http://siem:1', 'tcp://u@siem:1', 'tcp://siem:1/path', 'tcp://siem:99999'])
    t.equal(readSyslogAddress(bad), undefined, bad);
});

t.test('messages are counted in octets over TLS, and the server has them all when the sending ends', async (t) => {
  const ca = testCa();
  const { certPem, keyPem } = ca.leaf({ hosts: ['localhost'] });
  let text = '';
  const server = createTlsServer({ cert: certPem, key: keyPem }, (socket) => {
    socket.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
    socket.on('end', () => socket.end());
  });
  const port = await listen(t, server);
  const two = [event({ record_id: 'one', reason: 'line\nend' }), event({ record_id: 'zwei é' })];
  await sendToSyslog({ door: doorOf(t, ca.certPem), clock: runningClock }, target(port, 'tls'), two, 'node', new AbortController().signal);
  let rest = Buffer.from(text);
  const read: string[] = [];
  while (rest.length > 0) {
    const space = rest.indexOf(' ');
    const end = space + 1 + Number(rest.subarray(0, space).toString());
    read.push(rest.subarray(space + 1, end).toString());
    rest = rest.subarray(end);
  }
  t.same(read.length, 2);
  t.match(read, [/"record_id":"one"/, /"record_id":"zwei é"/]);
  const untrusted = sendToSyslog({ door: doorOf(t), clock: runningClock }, target(port, 'tls'), two, 'node', new AbortController().signal);
  t.match(await faultOf(untrusted), { reason: 'tls_error', retryable: true });
});

t.test('a server that breaks off, and a gateway that stops, leave the events to be sent again', async (t) => {
  const sockets: Socket[] = [];
  const breaking = createServer((socket) => socket.resetAndDestroy());
  const silent = createServer((socket) => {
    sockets.push(socket);
    socket.pause();
  });
  const door = doorOf(t);
  const many = Array.from({ length: 2_000 }, () => event({ record_id: 'r', reason: 'x'.repeat(7_000) }));
  const broken = sendToSyslog(
    { door, clock: runningClock },
    target(await listen(t, breaking), 'tcp'),
    many,
    'node',
    new AbortController().signal,
  );
  t.match(await faultOf(broken), { reason: 'unreachable', retryable: true });
  const ending = new AbortController();
  const sent = sendToSyslog({ door, clock: runningClock }, target(await listen(t, silent), 'tcp'), many, 'node', ending.signal);
  silent.once('connection', () => ending.abort());
  t.match(await faultOf(sent), { uncounted: true });
  for (const socket of sockets) socket.destroy();
});
