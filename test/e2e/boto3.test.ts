import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { awsChunk, awsEvent } from '../support/aws-events.ts';
import { run } from '../support/child.ts';
import { bundleOf, startGoverned } from '../support/governed.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';
import { AWS_KEY, type SignedRequest, verifiesV4 } from '../support/sigv4.ts';
import { tempDir } from '../support/temp-dir.ts';
import type { UpstreamHandler } from '../support/tls-upstream.ts';

/*
 * The official SDK of AWS for Python, through the proxy, to an upstream that checks its signatures: what it is told of
 * answers, streams and a refusal.
 */

const HOST = 'bedrock-runtime.eu-west-1.amazonaws.com';
const CLIENT = join(packageRoot(), 'test', 'e2e', 'clients', 'boto3-bedrock.py');
const CHEAPER = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
  transforms:
    - {id: cheaper, when: {field: action.params.model, contains: opus}, effect: {decision: downgrade, mutations: [{key: action.params.model, value: 'amazon.nova-lite-v1:0'}]}}
`);
const USAGE = { inputTokens: 11, outputTokens: 7, totalTokens: 18 };
const ANSWERS: Readonly<Record<string, object | readonly Buffer[]>> = {
  converse: { output: { message: { role: 'assistant', content: [{ text: 'Hi' }] } }, stopReason: 'end_turn', usage: USAGE },
  'converse-stream': [
    awsEvent('messageStart', { role: 'assistant' }),
    awsEvent('contentBlockDelta', { delta: { text: 'Hi' }, contentBlockIndex: 0 }),
    awsEvent('messageStop', { stopReason: 'end_turn' }),
    awsEvent('metadata', { usage: USAGE, metrics: { latencyMs: 5 } }),
  ],
  invoke: { type: 'message', usage: { input_tokens: 11, output_tokens: 7 } },
  'invoke-with-response-stream': [
    awsChunk({ type: 'message_start', message: { usage: { input_tokens: 11, output_tokens: 1 } } }),
    awsChunk({ type: 'message_delta', usage: { output_tokens: 7 } }),
    awsChunk({ type: 'message_stop', 'amazon-bedrock-invocationMetrics': { inputTokenCount: 11, outputTokenCount: 7 } }),
  ],
};

const bedrock: UpstreamHandler = (request, response, whole) =>
  void whole.then((body) => {
    const { method = '', url = '', headers } = request;
    if (!verifiesV4({ method, path: url, headers: headers as SignedRequest['headers'], body })) {
      response
        .writeHead(403, { 'content-type': 'application/json', 'x-amzn-errortype': 'InvalidSignatureException' })
        .end('{"message":"signature"}');
      return;
    }
    const answer = ANSWERS[url.slice(url.lastIndexOf('/') + 1)] ?? {};
    const pieces = Array.isArray(answer) ? (answer as readonly Buffer[]) : [Buffer.from(JSON.stringify(answer))];
    response.writeHead(200, { 'content-type': Array.isArray(answer) ? 'application/vnd.amazon.eventstream' : 'application/json' });
    for (const piece of pieces) response.write(piece);
    response.end();
  });

t.test('boto3', { skip: skipWithout(['boto3']) }, async (t) => {
  const { gw, upstream } = await startGoverned(t, { hosts: [HOST], handler: bedrock, bundle: CHEAPER });
  const ca = join(tempDir(t), 'ca.pem');
  writeFileSync(ca, gw.caPem);
  const env = {
    HTTPS_PROXY: gw.url,
    AWS_CA_BUNDLE: ca,
    AWS_ACCESS_KEY_ID: AWS_KEY.id,
    AWS_SECRET_ACCESS_KEY: AWS_KEY.secret,
    AWS_SESSION_TOKEN: 'session-token',
    AWS_EC2_METADATA_DISABLED: 'true',
  };
  const { stdout, stderr } = await run(t, requirePeer('boto3'), [CLIENT], { env });
  const said = stdout.split('\n').flatMap((line) => (line.startsWith('{') ? [JSON.parse(line) as Record<string, unknown>] : []));
  t.match(
    said,
    [
      { call: 'converse', said: 7 },
      { call: 'profile', said: 7 },
      { call: 'converse_stream', said: ['messageStart', 'contentBlockDelta', 'messageStop', 'metadata'] },
      { call: 'invoke', said: 7 },
      { call: 'invoke_stream', said: ['message_start', 'message_delta', 'message_stop'] },
      { call: 'downgraded', error: 'AccessDeniedException', message: /signature_would_break.*Policy changes action\.params\.model/ },
    ],
    stderr.slice(-1000),
  );
  t.equal(upstream.requests.length, 5, 'what would break a signature is not sent');
  t.match(await gw.admin('GET', '/v1/reports/usage?org_id=default'), {
    status: 200,
    body: { workloads: [{ tokens_in: 55, tokens_out: 35 }] },
  });
});
