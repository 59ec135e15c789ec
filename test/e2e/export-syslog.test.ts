// Events by syslog at a server that is not ours: rsyslog takes them by UDP and TCP and says how it has read each.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { eventually, launch } from '../support/child.ts';
import { startTestGateway } from '../support/gateway.ts';
import { managedOf } from '../support/managed.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

type Json = Record<string, unknown>;

/** How rsyslog has read one message. */
interface ReadMessage {
  readonly pri: string;
  readonly app: string;
  readonly msgid: string;
  readonly sd: string;
  readonly host: string;
  readonly msg: string;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address !== null ? address.port : 0;
}

async function startRsyslog(t: HasTeardown): Promise<{ readonly tcp: number; messages(): readonly ReadMessage[] }> {
  const dir = tempDir(t);
  const tcp = await freePort();
  const out = join(dir, 'messages');
  writeFileSync(
    join(dir, 'rsyslog.conf'),
    `global(workDirectory="${dir}")
module(load="imtcp")
module(load="imudp")
input(type="imtcp" address="127.0.0.1" port="${tcp}")
input(type="imudp" address="127.0.0.1" port="${tcp}")
template(name="read" type="list" option.jsonf="on") {
  property(outname="pri" name="pri" format="jsonf")
  property(outname="app" name="app-name" format="jsonf")
  property(outname="msgid" name="msgid" format="jsonf")
  property(outname="sd" name="structured-data" format="jsonf")
  property(outname="host" name="hostname" format="jsonf")
  property(outname="msg" name="msg" format="jsonf")
}
action(type="omfile" file="${out}" template="read" asyncWriting="off")
`,
  );
  const program = requirePeer('rsyslog');
  const child = launch(t, program, ['-n', '-f', join(dir, 'rsyslog.conf'), '-i', join(dir, 'pid')]);
  await eventually('rsyslog runs', () => {
    if (child.stderr.includes('error')) throw new Error(child.stderr);
    return existsSync(join(dir, 'pid')) ? true : undefined;
  });
  const messages = (): readonly ReadMessage[] =>
    existsSync(out)
      ? readFileSync(out, 'utf8')
          .split('\n')
          .filter((line) => line.endsWith('}'))
          .map((line) => JSON.parse(line) as ReadMessage)
      : [];
  return { tcp, messages };
}

t.test('rsyslog reads what is sent to it by TCP and UDP, and CEF', { skip: skipWithout(['rsyslog']) }, async (t) => {
  const { tcp, messages } = await startRsyslog(t);
  const env = { GW_EXPORT_SYSLOG_ADDR: `tcp://127.0.0.1:${tcp}`, GW_EGRESS_ALLOW: '127.0.0.1', GW_NODE_ID: 'node-1' };
  const gw = await startTestGateway(t, { env });
  const { manage } = await managedOf(gw);
  const of = (msgid: string): readonly ReadMessage[] => messages().filter((one) => one.msgid === msgid);
  const refused = await fetch(`${gw.url}/v1/actions:execute`, {
    method: 'POST',
    body: JSON.stringify({
      schema: 'gw.action_request.v2',
      org_id: 'default',
      workload_id: 'w"]\\',
      action: { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params: {} },
    }),
  });
  const { record_id: recordId } = (await refused.json()) as Json;
  const execution = await eventually('the record arrives', () => of('execution')[0]);
  const read = JSON.parse(execution.msg) as { payload: Json };
  t.same(read.payload, await gw.record(String(recordId)), 'the JSON is whole, and no byte order mark stands before it');
  t.match(execution, { app: 'ai-request-gateway', host: 'node-1', pri: /^10[0-9]|11[0-9]$/ });
  t.match(execution.sd, `record_id="${String(recordId)}"`);
  t.match(execution.sd, 'workload_id="w\\"\\]\\\\"');
  const audit = await eventually('the audit entry arrives', () => of('audit')[0]);
  t.equal(audit.pri, '109', 'facility 13, notice');

  const make = async (address: string, format: string): Promise<string> => {
    const made = await manage('POST', 'export/destinations', {
      name: address,
      kind: 'syslog',
      config: { address, format },
      event_types: ['approval'],
    });
    return String((made.body as Json)['id']);
  };
  const before = of('test').length;
  const udp = await make(`udp://127.0.0.1:${tcp}`, 'rfc5424');
  t.match((await manage('POST', `export/destinations/${udp}/test`)).body, { delivered: true });
  const tested = await eventually('the datagram arrives', () => of('test')[before]);
  t.match(JSON.parse(tested.msg), { event_type: 'test', payload: { test: true } });
  const cef = await make(`tcp://127.0.0.1:${tcp}`, 'cef');
  t.match((await manage('POST', `export/destinations/${cef}/test`)).body, { delivered: true, detail: 'taken' });
  const line = await eventually('the CEF line arrives', () => of('test')[before + 1]);
  t.match(line.msg, /^CEF:0\|AI Request Gateway\|ai-request-gateway\|1\|test\|test\|4\|rt=\d+ cs1Label=org cs1=acme$/);
});

t.test('a syslog server that is not there, or inside, is told as such', async (t) => {
  const { manage } = await managedOf(await startTestGateway(t, { env: { GW_EGRESS_ALLOW: '127.0.0.1' } }));
  const test = async (address: string): Promise<unknown> => {
    const made = await manage('POST', 'export/destinations', { name: 'x', kind: 'syslog', config: { address } });
    return (await manage('POST', `export/destinations/${String((made.body as Json)['id'])}/test`)).body;
  };
  t.match(await test('tcp://127.0.0.1:1'), { delivered: false, reason: 'unreachable' });
  t.match(await test('udp://169.254.169.254:514'), { delivered: false, reason: 'egress_denied' });
});
