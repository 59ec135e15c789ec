import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { MOCK_TEXT } from '../support/aimock.ts';
import { type Ended, eventually, launch, run } from '../support/child.ts';
import { type GatewayProcess, MAIN, startGatewayProcess } from '../support/gateway-process.ts';
import { openaiStreamEvent, openaiStreamTail } from '../support/openai-stream.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';
import { startProviders } from '../support/provider-upstream.ts';
import { tempDir } from '../support/temp-dir.ts';
import { startPlainUpstream, startTlsUpstream } from '../support/tls-upstream.ts';
import { towards } from '../support/upstreams.ts';

const CHAT = { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'hello' }] };
const CALL = [
  '--silent',
  '--show-error',
  '--max-time',
  '100',
  '--header',
  'Content-Type: application/json',
  '--header',
  'Authorization: Bearer sk-test',
];
const URL_OPENAI = 'https://api.openai.com/v1/chat/completions';

interface Answer {
  readonly ended: Ended;
  readonly httpVersion: string;
  readonly recordId: string | undefined;
}

/** One curl in a process of its own. */
async function curl(t: Test, args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Answer> {
  const heads = join(tempDir(t), 'heads');
  const ended = await run(t, requirePeer('curl'), [...CALL, '--suppress-connect-headers', '--dump-header', heads, ...args], { env });
  t.equal(ended.code, 0, ended.stderr);
  const text = readFileSync(heads, 'utf8');
  return { ended, httpVersion: /^HTTP\/([\d.]+)/.exec(text)?.[1] ?? '', recordId: /^x-gw-record-id: (\S+)/im.exec(text)?.[1] };
}

async function hasRecord(t: Test, gateway: GatewayProcess, answer: Answer, expected: Readonly<Record<string, unknown>>): Promise<void> {
  t.match(await gateway.record(answer.recordId), {
    decision: 'allow',
    provider: 'openai',
    model: 'gpt-4o-mini',
    metering: { tokens_in: 11, tokens_out: 7 },
    ...expected,
  });
}

t.test('curl', { skip: skipWithout(['curl']) }, async (t) => {
  const providers = await startProviders(t);
  const gateway = await startGatewayProcess(t, { env: providers.env });
  const body = ['--data', JSON.stringify(CHAT)];
  const proxied = { connection_type: 'connect_proxy', traffic_class: 'developer', workload_id: 'default' };

  await t.test('with --proxy and --cacert, over HTTP/2 and HTTP/1.1', async (t) => {
    for (const [flag, version] of [
      ['--http2', '2'],
      ['--http1.1', '1.1'],
    ] as const) {
      const answer = await curl(t, [flag, '--proxy', gateway.url, '--cacert', gateway.caFile, ...body, URL_OPENAI]);
      t.equal(answer.httpVersion, version);
      t.match(answer.ended.stdout, MOCK_TEXT);
      await hasRecord(t, gateway, answer, proxied);
    }
  });

  await t.test('with HTTPS_PROXY and CURL_CA_BUNDLE alone', async (t) => {
    const variables = { HTTPS_PROXY: gateway.url, CURL_CA_BUNDLE: gateway.bundleFile };
    const answer = await curl(t, [...body, URL_OPENAI], variables);
    t.match(answer.ended.stdout, MOCK_TEXT);
    await hasRecord(t, gateway, answer, proxied);
  });

  await t.test('at the ambient port', async (t) => {
    const answer = await curl(t, ['--proxy', gateway.ambientUrl, '--cacert', gateway.caFile, ...body, URL_OPENAI]);
    await hasRecord(t, gateway, answer, { ...proxied, traffic_class: 'ambient' });
  });

  await t.test('with another address in the place of the provider', async (t) => {
    const answer = await curl(t, [...body, `${gateway.url}/proxy/openai/v1/chat/completions`]);
    t.match(answer.ended.stdout, MOCK_TEXT);
    await hasRecord(t, gateway, answer, { connection_type: 'sdk_redirect', traffic_class: 'developer' });
  });

  await t.test('with what `gw env` prints, in a shell', async (t) => {
    const script = `eval "$("$NODE" "$MAIN" env --port ${gateway.port})" && exec curl --silent --show-error --max-time 100 --include --suppress-connect-headers "$@"`;
    const ended = await run(t, '/bin/sh', ['-c', script, 'sh', ...CALL, ...body, URL_OPENAI], {
      env: { ...gateway.env, NODE: process.execPath, MAIN },
    });
    t.equal(ended.code, 0, ended.stderr);
    t.match(ended.stdout, MOCK_TEXT);
    const recordId = /^x-gw-record-id: (\S+)/im.exec(ended.stdout)?.[1];
    t.match(await gateway.record(recordId), { decision: 'allow', ...proxied });
  });

  await t.test('with the certificate that the gateway serves', async (t) => {
    const served = join(tempDir(t), 'served.pem');
    const fetched = await run(t, requirePeer('curl'), ['--silent', '--fail', '--output', served, `${gateway.url}/v1/proxy/ca.crt`]);
    t.equal(fetched.code, 0, fetched.stderr);
    const answer = await curl(t, ['--proxy', gateway.url, '--cacert', served, ...body, URL_OPENAI]);
    await hasRecord(t, gateway, answer, proxied);
  });
});

t.test('curl sees each event of a stream before the provider sends the next', { skip: skipWithout(['curl']) }, async (t) => {
  // The provider goes on when the client has seen what there is: whoever holds events back stops this stream for ever.
  let next: (() => void) | undefined;
  const upstream = await startTlsUpstream({
    hosts: ['api.openai.com'],
    handler: (_request, response, body) => {
      void body.then(() => {
        let index = 0;
        response.writeHead(200, { 'Content-Type': 'text/event-stream' });
        next = () => {
          if (index < 3) response.write(openaiStreamEvent(index++));
          else response.end(openaiStreamTail());
        };
      });
    },
  });
  t.teardown(() => upstream.close());
  const gateway = await startGatewayProcess(t, { env: towards(t, upstream, ['api.openai.com']) });
  const body = JSON.stringify({ ...CHAT, stream: true, stream_options: { include_usage: true } });
  for (const flag of ['--http1.1', '--http2']) {
    await t.test(flag, async (t) => {
      const proxied = [flag, '--proxy', gateway.url, '--cacert', gateway.caFile];
      next = undefined;
      const child = launch(t, requirePeer('curl'), [...CALL, '--no-buffer', ...proxied, '--data', body, URL_OPENAI]);
      const goOn = await eventually('the call at the provider', () => next);
      for (const word of ['"w0 "', '"w1 "', '"w2 "']) {
        goOn();
        t.ok(await eventually(`${word} at the client`, () => child.stdout.includes(word) || undefined), `${word} has come`);
      }
      goOn();
      const { code, stderr, stdout } = await child.ended;
      t.equal(code, 0, stderr);
      t.match(stdout, /data: \[DONE\]\n\n$/);
    });
  }
});

t.test(
  'curl reaches a host that is no AI provider, unopened: it sees that host and its own certificate',
  { skip: skipWithout(['curl']) },
  async (t) => {
    const host = 'www.example.com';
    const upstream = await startTlsUpstream({ hosts: [host], h2: true });
    t.teardown(() => upstream.close());
    const gateway = await startGatewayProcess(t, { env: { GW_UPSTREAM_CONNECT_TO: `${host}:443=127.0.0.1:${upstream.port}` } });
    const caFile = join(tempDir(t), 'site-root.pem');
    writeFileSync(caFile, upstream.caPem);
    const answer = await curl(t, ['--http2', '--proxy', gateway.url, '--cacert', caFile, `https://${host}/`]);
    t.equal(answer.ended.stdout, '{"ok":true}');
    t.equal(answer.httpVersion, '2');
    t.equal(answer.recordId, undefined);
    t.equal(upstream.requests[0]?.headers['via'], undefined);
  },
);

t.test(
  'curl with http_proxy asks for plain addresses in absolute form: AI hosts are decided, others pass',
  { skip: skipWithout(['curl']) },
  async (t) => {
    const upstream = await startPlainUpstream((request, response) => response.end(`plain ${request.url ?? ''}`));
    t.teardown(() => upstream.close());
    const bundle = `schema: gw.policy_bundle.v1
bundle_id: plain
version: "1"
inline_rules:
  targets:
    - id: allow.openai
      when: {field: context.action.target_host, equals: api.openai.com}
      effect: {decision: allow}
`;
    const hosts = ['intranet.example', 'api.openai.com', 'api.mistral.ai'];
    const connectTo = hosts.map((host) => `${host}:80=127.0.0.1:${upstream.port}`).join(',');
    const gateway = await startGatewayProcess(t, { bundle, env: { GW_UPSTREAM_CONNECT_TO: connectTo } });
    const passed = await curl(t, ['http://intranet.example/page?q=1', '-d', 'form=1'], { http_proxy: gateway.url });
    t.equal(passed.ended.stdout, 'plain /page?q=1');
    t.notOk(passed.recordId, 'what is no AI host leaves no record');
    const allowed = await curl(t, ['http://api.openai.com/v1/models?q=1'], { http_proxy: gateway.url });
    t.equal(allowed.ended.stdout, 'plain /v1/models?q=1');
    t.match(await gateway.record(allowed.recordId), {
      decision: 'allow',
      action_type: 'http.request',
      connection_type: 'connect_proxy',
      traffic_class: 'developer',
      target_host: 'api.openai.com',
      status_code: 200,
    });
    const refused = await curl(t, ['http://api.mistral.ai/v1/models'], { http_proxy: gateway.url });
    t.match(JSON.parse(refused.ended.stdout), { decision: 'deny', reason_codes: ['target_not_allowed'] });
    t.match(await gateway.record(refused.recordId), { decision: 'deny', target_host: 'api.mistral.ai', status_code: 403 });
    t.equal(upstream.requests.length, 2);
  },
);
