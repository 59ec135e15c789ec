import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connect } from 'node:tls';
import t from 'tap';
import { MOCK_TEXT, startAimock } from './aimock.ts';
import { testCa } from './certificates.ts';
import { run } from './child.ts';
import { fakeClock } from './fake-clock.ts';
import { requirePeer, skipWithout } from './peers.ts';
import { h1Request, h2Request, h2Session } from './raw-clients.ts';
import { tempDir } from './temp-dir.ts';
import { startTlsUpstream } from './tls-upstream.ts';
import { environmentAt } from './whole-month.ts';

t.test(
  'throw-away certificates pass OpenSSL in strict mode, and an expired one does not',
  { skip: skipWithout(['openssl']) },
  async (t) => {
    const folder = tempDir(t);
    const ca = testCa();
    const verify = (leafPem: string): string => {
      writeFileSync(join(folder, 'ca.pem'), ca.certPem);
      writeFileSync(join(folder, 'leaf.pem'), leafPem);
      return execFileSync(requirePeer('openssl'), ['verify', '-x509_strict', '-CAfile', join(folder, 'ca.pem'), join(folder, 'leaf.pem')], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'pipe'],
      });
    };
    t.match(verify(ca.leaf({ hosts: ['api.openai.com', '127.0.0.1', '::1'] }).certPem), /leaf\.pem: OK/);
    t.throws(() => verify(ca.leaf({ hosts: ['a.example'], notBefore: new Date(0), notAfter: new Date(86_400_000) }).certPem), /expired/);
  },
);

t.test('the mock answers all providers behind TLS with eleven tokens in and seven out', async (t) => {
  const upstream = await startAimock({ apiKey: 'k' });
  t.teardown(() => upstream.close());
  const post = async (host: string, path: string, body: object): Promise<unknown> => {
    const socket = connect({ port: upstream.port, host: '127.0.0.1', servername: host, ca: upstream.caPem });
    t.teardown(() => socket.destroy());
    const headers = ['Content-Type', 'application/json', 'Authorization', 'Bearer k', 'Connection', 'close'];
    const answer = await h1Request(socket, host, { method: 'POST', path, headers, body: JSON.stringify(body) });
    t.equal(answer.status, 200, `${host}${path}`);
    return JSON.parse(answer.body.toString('utf8'));
  };
  const messages = [{ role: 'user', content: 'hello' }];
  const chat = { model: 'gpt-4o-mini', messages };
  const openaiUsage = { prompt_tokens: 11, completion_tokens: 7 };
  t.match(await post('api.openai.com', '/v1/chat/completions', chat), {
    choices: [{ message: { content: MOCK_TEXT } }],
    usage: openaiUsage,
  });
  t.match(await post('api.mistral.ai', '/v1/chat/completions', chat), { usage: openaiUsage });
  t.match(await post('api.anthropic.com', '/v1/messages', { model: 'claude-3-5-haiku', max_tokens: 9, messages }), {
    usage: { input_tokens: 11, output_tokens: 7 },
  });
  t.match(
    await post('generativelanguage.googleapis.com', '/v1beta/models/gemini-2.5-flash:generateContent', {
      contents: [{ parts: [{ text: 'hello' }] }],
    }),
    {
      usageMetadata: { promptTokenCount: 11, candidatesTokenCount: 7 },
    },
  );
  t.match(await post('api.cohere.com', '/v2/chat', { model: 'command-r', messages }), {
    usage: { tokens: { input_tokens: 11, output_tokens: 7 } },
  });
  const azure = '/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21';
  t.match(await post('example-resource.openai.azure.com', azure, { messages }), { usage: openaiUsage });
  t.equal(upstream.journal().length, 6);
  t.match(upstream.journal()[0], { method: 'POST', path: '/v1/chat/completions', headers: { authorization: '[REDACTED]' }, body: chat });
  t.match(upstream.connectTo, `api.openai.com:443=127.0.0.1:${upstream.port}`);
});

t.test('the raw clients read h1 with 1xx, chunks and trailers, and h2 with trailers', async (t) => {
  const upstream = await startTlsUpstream({
    h2: true,
    handler: (request, response) => {
      if (request.httpVersion === '1.1') response.writeEarlyHints({ link: '</style.css>; rel=preload' });
      response.writeHead(200, request.httpVersion === '1.1' ? { Trailer: 'X-Sum' } : {});
      response.write('one ');
      response.addTrailers({ 'X-Sum': '42' });
      response.end('two');
    },
  });
  t.teardown(() => upstream.close());
  const dial = async (alpn: string): Promise<ReturnType<typeof connect>> => {
    const socket = connect({ port: upstream.port, host: 'localhost', ca: upstream.caPem, ALPNProtocols: [alpn] });
    t.teardown(() => socket.destroy());
    await new Promise((resolve, reject) => socket.once('secureConnect', resolve).once('error', reject));
    return socket;
  };
  const one = await h1Request(await dial('http/1.1'), 'localhost');
  t.match({ ...one, body: one.body.toString() }, { status: 200, body: 'one two', trailers: ['X-Sum', '42'], infos: [103] });
  const session = h2Session(await dial('h2'), 'localhost');
  const two = await h2Request(session);
  session.close();
  t.match({ ...two, body: two.body.toString() }, { status: 200, body: 'one two', trailers: ['x-sum', '42'] });
});

t.test('a gateway in the last hours of a month lives in the next one, else in its own', async (t) => {
  const month = 28 * 86_400_000;
  for (const ends of ['2026-12-01', '2027-01-01', '2027-03-01', '2028-03-01'].map((day) => Date.parse(day))) {
    for (const at of [ends, ends + 3_600_000, ends - 3 * 3_600_000, ends - month])
      t.same(environmentAt(at), {}, new Date(at).toISOString());
    for (const at of [ends - 1, ends - 3_600_000]) t.not(environmentAt(at)['NODE_OPTIONS'], undefined, new Date(at).toISOString());
  }
  const began = Date.now();
  const { stdout } = await run(t, process.execPath, ['-p', 'Date.now()'], { env: environmentAt(Date.UTC(2027, 0) - 1) });
  const later = Number(stdout) - Date.now();
  t.ok(later > 2 * 3_600_000 && later <= 3 * 3_600_000 && Number(stdout) >= began + 3 * 3_600_000, stdout);
});

t.test('the fake clock runs what falls due, in order, and nothing that was cancelled', async (t) => {
  const clock = fakeClock(1000);
  const log: string[] = [];
  clock.after(20, () => log.push(`b@${clock.now()}`));
  clock.after(10, () => {
    log.push(`a@${clock.now()}`);
    clock.after(5, () => log.push(`nested@${clock.now()}`));
  });
  clock.after(12, () => log.push('never'))();
  clock.advance(19);
  t.same(log, ['a@1010', 'nested@1015']);
  clock.advance(1);
  t.same(log, ['a@1010', 'nested@1015', 'b@1020']);
  t.equal(clock.pending, 0);
});
