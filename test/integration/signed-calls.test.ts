/*
 * Calls that their caller signed (AWS Signature Version 4). The upstream does what the services of AWS do: it signs
 * what has arrived once more and refuses what differs.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { run } from '../support/child.ts';
import { ALLOW_ALL, bundleOf, type Governed, startGoverned } from '../support/governed.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';
import { AWS_KEY, authorizationV4, type SignedRequest, verifiesV4 } from '../support/sigv4.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';
import type { UpstreamHandler } from '../support/tls-upstream.ts';

const HOST = 'bedrock-runtime.eu-west-1.amazonaws.com';
const PATH = '/model/eu.anthropic.claude-3-haiku-20240307-v1%3A0/converse';
const BODY = '{"messages": [{"role":"user","content":[{"text":"hello"}]}], "inferenceConfig":{"maxTokens":9.0}}';
const SCOPE = { region: 'eu-west-1', service: 'bedrock', date: '20261122T101500Z' };

const likeAws: UpstreamHandler = (request, response, whole) =>
  void whole.then((body) => {
    const arrived = { method: request.method ?? '', path: request.url ?? '', headers: request.headers as SignedRequest['headers'], body };
    const known = verifiesV4(arrived) || request.headers.authorization === 'Bearer bedrock-key';
    response.writeHead(known ? 200 : 403, { 'content-type': 'application/json' });
    response.end(
      known ? '{"usage":{"inputTokens":11,"outputTokens":7}}' : '{"message":"The request signature we calculated does not match"}',
    );
  });

/** What an SDK of AWS sends; all of its headers are signed. */
function signed(headers: Readonly<Record<string, string>> = {}, path = PATH, body = BODY, host = HOST) {
  const all = {
    host,
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
    'x-amz-date': SCOPE.date,
    'x-amz-security-token': 'session-token',
    accept: 'application/json',
    ...headers,
  };
  const authorization = authorizationV4({ method: 'POST', path, headers: all, body }, Object.keys(all), SCOPE);
  return { method: 'POST', path, headers: [...Object.entries(all).flat(), 'authorization', authorization], body };
}

function start(t: HasTeardown, bundle = ALLOW_ALL, env: Readonly<Record<string, string>> = {}): Promise<Governed> {
  return startGoverned(t, { hosts: [HOST, 'bedrock-mantle.eu-west-1.api.aws'], handler: likeAws, bundle, env });
}

const CHEAPER = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
  transforms:
    - {id: cheaper, when: {field: action.params.model, contains: haiku}, effect: {decision: downgrade, mutations: [{key: action.params.model, value: 'amazon.nova-lite-v1:0'}]}}
`);

t.test('the signature of this test is that of the documentation', async (t) => {
  const headers = { host: 'example.amazonaws.com', 'x-amz-date': '20150830T123600Z' };
  const scope = { region: 'us-east-1', service: 'service', date: '20150830T123600Z' };
  const authorization = authorizationV4({ method: 'GET', path: '/', headers, body: '' }, Object.keys(headers), scope);
  t.match(authorization, `Credential=${AWS_KEY.id}/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date`);
  t.match(authorization, /Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31$/);
});

// Holds: signed-calls-stay-signed
t.test('an unchanged call reaches the provider with its signature whole', async (t) => {
  const { through, send, recordOf, upstream } = await start(t);
  const every = {
    'accept-encoding': 'gzip, br',
    'amz-sdk-request': 'attempt=1; max=3',
    'x-amz-user-agent': 'aws-sdk-js/3',
    'x-stainless-lang': 'js',
  };
  for (const answer of [
    await through(`${HOST}:443`, signed()),
    await through(`${HOST}:443`, signed(every)),
    await through(`${HOST}:443`, signed({}, `${PATH}?b=2&a=1`)),
    // A redirect by DNS, and a plain forward proxy.
    await send({ ...signed(), host: HOST }),
    await send({ ...signed(), path: `https://${HOST}${PATH}` }),
  ]) {
    t.equal(answer.status, 200);
    t.match(await recordOf(answer), {
      decision: 'allow',
      connector_id: 'bedrock',
      model: 'eu.anthropic.claude-3-haiku-20240307-v1:0',
      metering: { tokens_in: 11, tokens_out: 7 },
    });
    t.equal(upstream.requests.at(-1)?.body.toString(), BODY);
  }
  const odd = await through(`${HOST}:443`, signed({ 'content-encoding': 'identity, identity' }, PATH, `\ufeff${BODY}`));
  t.equal(odd.status, 200, 'what others are not sent stays where it is signed');
  t.equal(upstream.requests.at(-1)?.body.toString(), `\ufeff${BODY}`);
  t.equal(upstream.requests[0]?.headers['accept-encoding'], 'identity', 'what is not signed is asked for as of every provider');
});

t.test('what curl signs, over HTTP/2 and HTTP/1.1', { skip: skipWithout(['curl']) }, async (t) => {
  const { gw, upstream } = await start(t);
  const ca = join(tempDir(t), 'ca.pem');
  writeFileSync(ca, gw.caPem);
  // It writes no escapes of escapes, so the model's id has none here.
  const url = `https://${HOST}/model/meta.llama3/converse`;
  for (const version of ['--http2', '--http1.1']) {
    const signing = ['--aws-sigv4', 'aws:amz:eu-west-1:bedrock', '--user', `${AWS_KEY.id}:${AWS_KEY.secret}`];
    const call = [version, '--silent', '--max-time', '100', '--proxy', gw.url, '--cacert', ca, '--data', BODY, url];
    const { stdout, stderr } = await run(t, requirePeer('curl'), [...signing, ...call]);
    t.match(stdout, '"outputTokens":7', `${version} ${stderr}`);
  }
  t.match(upstream.requests, [{ headers: { authorization: /^AWS4-HMAC-SHA256 / } }, {}]);
});

// Holds: signed-calls-stay-signed
t.test('what would break the signature is refused before anything is sent, in the form of the SDK', async (t) => {
  const { through, send, recordOf, execute, upstream } = await start(t, CHEAPER);
  const mutated = await through(`${HOST}:443`, signed());
  t.equal(mutated.status, 403);
  t.match(JSON.parse(mutated.body.toString()), {
    __type: 'AccessDeniedException',
    message: /signature_would_break.*Policy changes action\.params\.model.*Signature Version 4/,
    decision: 'deny',
    reason_codes: ['signature_would_break'],
  });
  t.match(await recordOf(mutated), { decision: 'deny', reason_codes: ['signature_would_break'] });
  const other = '/model/amazon.nova-lite-v1%3A0/converse';
  const cases: readonly [string, Promise<{ body: Buffer }>, RegExp][] = [
    ['another host', send(signed({ 'x-gw-target-host': HOST }, other, BODY, '127.0.0.1')), /the host bedrock.* and is signed for another/],
    ['a prefix', send({ ...signed({}, `/proxy/bedrock${other}`), host: HOST }), /The path is sent in another spelling/],
    ['escapes in small letters', through(`${HOST}:443`, signed({}, '/model/amazon.nova-lite-v1%3a0/converse')), /another spelling/],
    ['a header of one hop', through(`${HOST}:443`, signed({ te: 'trailers' }, other)), /The header te is not passed on/],
    ['a header of the gateway', through(`${HOST}:443`, signed({ 'x-gw-project-id': 'p' }, other)), /The header x-gw-project-id/],
  ];
  for (const [name, sent, reason] of cases) {
    const body = JSON.parse((await sent).body.toString()) as Record<string, unknown>;
    t.match(body, { reason_codes: ['signature_would_break'], reason }, name);
  }
  const { headers } = signed({}, other);
  const direct = await execute(
    { credential_hint: undefined },
    { target_host: HOST, target_path: other, params: JSON.parse(BODY) as object, headers: { Authorization: headers.at(-1) } },
  );
  t.match(direct, { status: 403, body: { reason_codes: ['signature_would_break'], reason: /structured API/ } });
  t.equal(upstream.requests.length, 0);
  const signature = { Authorization: headers.at(-1), 'X-Amz-Date': SCOPE.date };
  const get = { type: 'http.request', method: 'GET', target_host: 'www.example.com', target_path: '/o', params: {}, headers: signature };
  t.equal((await execute({ credential_hint: undefined }, get)).status, 200, 'there is no body to write');
});

t.test('a signature in the query is kept as well', async (t) => {
  const { through, send, execute, upstream } = await start(t, CHEAPER);
  const presigned = `${PATH}?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-SignedHeaders=host%3Bte&X-Amz-Signature=0`;
  const call = (path: string, headers: readonly string[] = []) => through(`${HOST}:443`, { method: 'POST', path, headers, body: BODY });
  t.match(JSON.parse((await call(presigned)).body.toString()), { reason: /Policy changes action.params.model/ });
  const other = presigned.replace('haiku', 'sonnet');
  t.match(JSON.parse((await call(other, ['TE', 'trailers'])).body.toString()), { reason: /The header te/ });
  t.equal(upstream.requests.length, 0);
  await call(other);
  t.equal(upstream.requests.at(-1)?.url, other);
  // Whoever made the URL made it for the upstream; it holds by every door.
  await send({ method: 'POST', path: `/proxy/bedrock${other}`, headers: ['X-GW-Target-Host', HOST], body: BODY });
  t.equal(upstream.requests.at(-1)?.url, other);
  const object = {
    type: 'http.request',
    method: 'GET',
    target_host: 'www.example.com',
    target_path: `/o?${presigned.split('?')[1]}`,
    params: {},
  };
  t.equal((await execute({ credential_hint: undefined }, object)).status, 200);
  t.equal(upstream.requests.length, 3);
});

t.test('a signed URL does not move to another host', async (t) => {
  const rules = `  targets:
    - {id: all, effect: {decision: allow}}
  connectors:
    - {id: move, effect: {decision: allow, select_connector: openai}}
`;
  const { through, upstream } = await start(t, bundleOf(rules));
  const path = `${PATH}?X-Amz-Signature=0&X-Amz-SignedHeaders=host`;
  const { body } = await through(`${HOST}:443`, { method: 'POST', path, body: BODY });
  t.match(JSON.parse(body.toString()), { reason: /^Policy moves the call to the host api\.openai\.com/ });
  t.equal(upstream.requests.length, 0);
});

t.test('a header that policy sets breaks a signature only when it is signed', async (t) => {
  const rules = `  targets:
    - {id: all, effect: {decision: allow}}
  transforms:
    - {id: mark, effect: {mutations: [{key: action.headers.X-Team, value: blue}]}}
`;
  const { through, upstream } = await start(t, bundleOf(rules));
  t.equal((await through(`${HOST}:443`, signed())).status, 200);
  t.equal(upstream.requests.at(-1)?.headers['x-team'], 'blue');
  const refused = await through(`${HOST}:443`, signed({ 'x-team': 'red' }));
  t.match(JSON.parse(refused.body.toString()), { reason: /The header x-team/ });
  t.equal(upstream.requests.length, 1);
});

t.test('a key that policy selects takes the place of the signature, and then everything may change', async (t) => {
  const rules = `${CHEAPER}  credentials:
    - {id: ours, effect: {decision: allow, select_credential: {provider: bedrock}}}
`;
  const { gw, through, recordOf, upstream } = await start(t, rules);
  const put = await gw.admin('PUT', '/v1/admin/credentials', {
    credential_id: 'cred-bedrock',
    org_id: 'default',
    connector_id: 'aws-bedrock',
    mode: 'alias',
    secret_ref: 'bedrock-key',
  });
  t.equal(put.status, 200);
  const answer = await through(`${HOST}:443`, signed());
  t.equal(answer.status, 200);
  t.match(await recordOf(answer), { decision: 'downgrade', model: 'amazon.nova-lite-v1:0', credential_id: 'cred-bedrock' });
  const { url, headers } = upstream.requests.at(-1) ?? {};
  t.equal(url, '/model/amazon.nova-lite-v1%3A0/converse');
  t.equal(headers?.['authorization'], 'Bearer bedrock-key');
  t.equal(headers?.['x-amz-security-token'], undefined, 'what belonged to the signature is gone');
});

t.test('the usage of a signed stream is not asked for', async (t) => {
  const host = 'bedrock-mantle.eu-west-1.api.aws';
  const { through, upstream } = await start(t, ALLOW_ALL, { GW_METER_INJECT_USAGE: 'true' });
  const body = '{"model":"openai.gpt-oss-120b","messages":[],"stream":true}';
  const answer = await through(`${host}:443`, signed({}, '/openai/v1/chat/completions', body, host));
  t.equal(answer.status, 200);
  t.equal(upstream.requests.at(-1)?.body.toString(), body);
});

t.test('what looks like a signature keeps no stream of another provider from being metered', async (t) => {
  const host = 'api.openai.com';
  const { through, upstream } = await start(t, ALLOW_ALL, { GW_METER_INJECT_USAGE: 'true' });
  const body = '{"model":"gpt-4o-mini","messages":[],"stream":true}';
  const presigned = { method: 'POST', path: '/v1/chat/completions?X-Amz-Signature=0', body };
  for (const call of [presigned, signed({}, '/v1/chat/completions', body, host)]) {
    await through(`${host}:443`, call);
    t.match(upstream.requests.at(-1)?.body.toString(), '"stream_options":{"include_usage":true}');
  }
});
