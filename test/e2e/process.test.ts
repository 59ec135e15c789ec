import { readFileSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { waitedForCoreMs } from '../proof/process-state.ts';
import { type Child, eventually, launch, run } from '../support/child.ts';
import { type GatewayProcess, gatewayEnvironment, MAIN, startGatewayProcess, startGatewayWith } from '../support/gateway-process.ts';
import { openaiStreamEvent, openaiStreamTail, startOpenaiStream } from '../support/openai-stream.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';
import { canConnect } from '../support/raw-clients.ts';
import { tempDir } from '../support/temp-dir.ts';
import { startTlsUpstream } from '../support/tls-upstream.ts';
import { callSdk } from './sdk-calls.ts';

const STREAM = JSON.stringify({ model: 'gpt-4o-mini', messages: [], stream: true, stream_options: { include_usage: true } });

/** A curl that reads a stream; the answer's head stands before the events. */
function readStream(t: Test, gateway: GatewayProcess, args: readonly string[], base: string): Child {
  const call = [
    '--silent',
    '--show-error',
    '--no-buffer',
    '--include',
    '--suppress-connect-headers',
    '--header',
    'Authorization: Bearer sk-test',
  ];
  return launch(
    t,
    requirePeer('curl'),
    [...call, ...args, '--header', 'Content-Type: application/json', '--data', STREAM, `${base}/v1/chat/completions`],
    { env: base.startsWith('https:') ? { HTTPS_PROXY: gateway.url, CURL_CA_BUNDLE: gateway.bundleFile } : {} },
  );
}

function recordIdIn(text: string): string | undefined {
  return /^x-gw-record-id: (\S+)/im.exec(text)?.[1];
}

/** Two providers: the streams of one never end in time, those of the other end when they are told to. */
async function startTwoStreams(t: Test) {
  const long = await startOpenaiStream(1_000_000, { gapMs: 30 });
  t.teardown(() => long.close());
  const waiting: ServerResponse[] = [];
  const told = await startTlsUpstream({
    hosts: ['api.mistral.ai'],
    handler: (_request, response, body) => {
      void body.then(() => {
        response.writeHead(200, { 'Content-Type': 'text/event-stream' }).write(openaiStreamEvent(0));
        waiting.push(response);
      });
    },
  });
  t.teardown(() => told.close());
  const caFile = join(tempDir(t), 'upstream-roots.pem');
  writeFileSync(caFile, long.caPem + told.caPem);
  const connectTo = `api.openai.com:443=127.0.0.1:${long.port},api.mistral.ai:443=127.0.0.1:${told.port}`;
  return {
    long,
    finish: () => {
      for (const response of waiting.splice(0)) response.end(openaiStreamEvent(1) + openaiStreamTail());
    },
    env: { GW_UPSTREAM_CONNECT_TO: connectTo, GW_UPSTREAM_CA_FILE: caFile },
  };
}

t.test('the life of a gateway', { skip: skipWithout(['curl']) }, async (t) => {
  const { long, finish, env } = await startTwoStreams(t);
  const gateway = await startGatewayProcess(t, { env });

  const ways = [
    ['CONNECT with http/1.1', ['--http1.1'], 'https://api.openai.com'],
    ['CONNECT with h2', ['--http2'], 'https://api.openai.com'],
    ['a base URL', [], `${gateway.url}/proxy/openai`],
  ] as const;
  for (const [way, args, base] of ways) {
    await t.test(`a client that is killed stops its upstream call within a second, and the record says aborted: ${way}`, async (t) => {
      const before = long.aborted;
      const child = readStream(t, gateway, args, base);
      await eventually('the first events', () => (child.stdout.includes('"w2 "') ? true : undefined));
      // What the gateway and this process wait for a core is no delay of theirs.
      const waited = (): number => waitedForCoreMs(Number(gateway.child.pid)) + waitedForCoreMs(process.pid);
      const killed = performance.now() - waited();
      child.kill('SIGKILL');
      await eventually('the end of the upstream call', () => (long.aborted > before ? true : undefined));
      const took = performance.now() - waited() - killed;
      t.ok(took < 1000, `after ${Math.round(took)} ms`);
      t.equal((await child.ended).signal, 'SIGKILL');
      t.match(await gateway.record(recordIdIn(child.stdout)), {
        decision: 'allow',
        upstream_status: 200,
        stream: true,
        stream_outcome: 'aborted',
      });
    });
  }

  await t.test('an SDK that leaves a stream early stops the upstream call too', async (t) => {
    const before = long.aborted;
    const [left] = await callSdk(t, process.execPath, 'openai', ['stream-left'], { OPENAI_BASE_URL: `${gateway.url}/proxy/openai/v1` });
    t.match(left, { text: 'w0 ', sent: 1 });
    await eventually('the end of the upstream call', () => (long.aborted > before ? true : undefined));
    t.match(await gateway.record(left?.answers[0]?.recordId), { stream: true, stream_outcome: 'aborted' });
  });

  await t.test('a second gateway on the same data folder says so in one line and does not start', async (t) => {
    const second = await run(t, process.execPath, [MAIN, 'start'], { env: gateway.env });
    t.equal(second.code, 1);
    t.equal(second.stdout, '');
    t.match(second.stderr, /^[^\n]+\n$/);
    t.match(second.stderr, String(gateway.env['GW_DATA_DIR']));
    t.match(await gateway.admin('GET', '/healthz'), { status: 200 });
  });

  const streams = [
    readStream(t, gateway, ['--http1.1'], 'https://api.mistral.ai'),
    readStream(t, gateway, ['--http2'], 'https://api.mistral.ai'),
  ];
  await t.test('SIGTERM lets running streams finish, takes no new connection, and ends with code 0', async (t) => {
    for (const child of streams) await eventually('the first events', () => (child.stdout.includes('"w0 "') ? true : undefined));
    gateway.child.kill('SIGTERM');
    await eventually('the closed port', async () => ((await canConnect(gateway.port)) ? undefined : true));
    t.notOk(await canConnect(gateway.ambientPort), 'the ambient port is closed too');
    finish();
    for (const child of streams) {
      const { code, stdout } = await child.ended;
      t.equal(code, 0);
      t.match(stdout, '"w1 "');
      t.match(stdout, /data: \[DONE\]\n\n$/);
    }
    t.match(await gateway.child.ended, { code: 0, signal: null });
  });

  const files = streams.map((_, i) => join(tempDir(t), `record-${i}.json`));
  await t.test('the next gateway on the folder has the records of the streams that it let finish', async (t) => {
    const next = await startGatewayWith(t, gateway.env);
    for (const [i, { stdout }] of streams.entries()) {
      const id = recordIdIn(stdout);
      t.match(await next.record(id), { stream_outcome: 'complete', provider: 'mistral', metering: { tokens_in: 11, tokens_out: 7 } });
      writeFileSync(files[i] ?? '', (await next.admin('GET', `/v1/records/${id ?? ''}`)).text);
    }
    next.child.kill('SIGTERM');
    t.equal((await next.child.ended).code, 0);
  });

  await t.test('gw verify recomputes the hash of a fetched record without any gateway, and finds what was changed', async (t) => {
    const [file = ''] = files;
    const id = recordIdIn(streams[0]?.stdout ?? '') ?? '';
    const good = await run(t, process.execPath, [MAIN, 'verify', file]);
    t.equal(good.code, 0, good.stderr);
    t.match(good.stdout, new RegExp(`^verified +${id}`));

    const text = readFileSync(file, 'utf8');
    const tampered = text.replace('"tokens_out":7', '"tokens_out":8');
    t.not(tampered, text);
    writeFileSync(file, tampered);
    const bad = await run(t, process.execPath, [MAIN, 'verify', file]);
    t.equal(bad.code, 1);
    t.match(bad.stdout, new RegExp(`^MISMATCH +${id}`));
  });
});

t.test('a command whose reader has gone ends without a word', async (t) => {
  const ended = await run(t, 'sh', ['-c', '"$0" "$1" help | true', process.execPath, MAIN]);
  t.match(ended, { code: 0, stderr: '' });
});

t.test('bad settings stop the start, every one of them named', async (t) => {
  const bad = { GW_PORT: 'seven', GW_MAX_BODY_BYTES: 'much', GW_UPSTREAM_IDLE_TIMEOUT: '-5s', GW_PROXY_NON_AI: 'perhaps' };
  const env = gatewayEnvironment(t, { env: bad });
  const { code, stdout, stderr } = await run(t, process.execPath, [MAIN, 'start'], { env });
  t.equal(code, 1);
  t.equal(stdout, '');
  for (const [name, value] of Object.entries(bad)) {
    const line = stderr.split('\n').find((text) => text.includes(name));
    t.match(line, value, `one line names ${name} and its value`);
  }
});

t.test('a broken bundle stops the start, every mistake with its place', async (t) => {
  const bundle = `schema: gw.policy_bundle.v1
bundle_id: broken
version: "1"
inline_rules:
  connectors:
    - id: one
      when: {field: context.connector.idd, equals: openai}
      effect: {decision: allow}
    - id: two
      when: {field: context.connector.id, equal: openai}
      effect: {decision: allow}
    - id: three
      when: {field: context.connector.id, equals: openai}
      effect: {decision: allowed}
`;
  const env = gatewayEnvironment(t, { bundle });
  const { code, stdout, stderr } = await run(t, process.execPath, [MAIN, 'start'], { env });
  t.equal(code, 1);
  t.equal(stdout, '');
  for (const place of ['bundle.yaml:7:', 'bundle.yaml:10:', 'bundle.yaml:14:']) t.match(stderr, place);
  for (const id of ['one', 'two', 'three']) t.match(stderr, id);
});
