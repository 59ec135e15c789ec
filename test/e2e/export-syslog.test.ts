// Events by syslog at servers that are not ours: rsyslog and syslog-ng take them by UDP, TCP and TLS and say how they
// have read each.
import t from 'tap';
import { eventually } from '../support/child.ts';
import { startTestGateway } from '../support/gateway.ts';
import { managedOf } from '../support/managed.ts';
import { skipWithout } from '../support/peers.ts';
import { type ReadMessage, startRsyslog, startSyslogNg } from '../support/syslog-servers.ts';

type Json = Record<string, unknown>;

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
  t.match(
    line.msg,
    /^CEF:0\|AI Request Gateway\|ai-request-gateway\|1\|test\|test\|4\|rt=\d+ externalId=evt_[0-9a-f]{32} cs1Label=org cs1=acme$/,
  );
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

t.test('syslog-ng reads what is sent to it by UDP, TCP and TLS, and the fields of CEF', { skip: skipWithout(['syslog-ng']) }, async (t) => {
  const { udp, tcp, tls, caFile, messages } = await startSyslogNg(t);
  const env = {
    GW_EXPORT_SYSLOG_ADDR: `tls://localhost:${tls}`,
    GW_UPSTREAM_CA_FILE: caFile,
    GW_EGRESS_ALLOW: '127.0.0.1',
    GW_NODE_ID: 'node-1',
  };
  const gw = await startTestGateway(t, { env });
  const { manage } = await managedOf(gw);
  const of = (msgid: string): readonly ReadMessage[] => messages().filter((one) => one.msgid === msgid);
  const action = { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params: {} };
  const refused = await fetch(`${gw.url}/v1/actions:execute`, {
    method: 'POST',
    body: JSON.stringify({ schema: 'gw.action_request.v2', org_id: 'default', workload_id: 'w"]\\', action }),
  });
  const { record_id: recordId } = (await refused.json()) as Json;
  const execution = await eventually('the record arrives by TLS', () => of('execution')[0]);
  t.same((JSON.parse(execution.msg) as { payload: Json }).payload, await gw.record(String(recordId)), 'the JSON is whole');
  t.match(execution, { app: 'ai-request-gateway', host: 'node-1', pri: /^10[0-9]|11[0-9]$/ });
  const fields = execution.fields?.['gw@32473'] as Json;
  t.match(fields, { record_id: recordId, event_type: 'execution', event_id: /^evt_[0-9a-f]{32}$/, workload_id: 'w"]\\' });

  const before = of('test').length;
  const make = async (address: string, format: string): Promise<Json> => {
    const made = await manage('POST', 'export/destinations', {
      name: address,
      kind: 'syslog',
      config: { address, format },
      event_types: ['approval'],
    });
    const tested = await manage('POST', `export/destinations/${String((made.body as Json)['id'])}/test`);
    return tested.body as Json;
  };
  t.match(await make(`udp://127.0.0.1:${udp}`, 'rfc5424'), { delivered: true });
  const datagram = await eventually('the datagram arrives', () => of('test')[before]);
  t.match(JSON.parse(datagram.msg), { event_type: 'test', payload: { test: true } });
  t.match(await make(`tcp://127.0.0.1:${tcp}`, 'rfc5424'), { delivered: true, detail: 'taken' });
  const framed = await eventually('the counted frame arrives', () => of('test')[before + 1]);
  t.match(framed.fields?.['gw@32473'], { event_type: 'test', org_id: 'acme' });
  t.match(await make(`tcp://127.0.0.1:${tcp}`, 'cef'), { delivered: true, detail: 'taken' });
  const line = await eventually('the CEF line arrives', () => of('test')[before + 2]);
  t.match(
    line.msg,
    /^CEF:0\|AI Request Gateway\|ai-request-gateway\|1\|test\|test\|4\|rt=\d+ externalId=evt_[0-9a-f]{32} cs1Label=org cs1=acme$/,
  );
});
