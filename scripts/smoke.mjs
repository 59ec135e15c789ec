/*
 * `npm run smoke`: starts the product once as a user does (`npm start`), on free ports and in a folder that is thrown
 * away, in front of a stub of api.openai.com behind TLS; sends one real call through each door, reads each record, and
 * stops it. Ends with `N passed, N failed`.
 */
import { execFile, spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { forTests } from './child-environment.mjs';
import { projectRoot, setUp } from './setup.mjs';

const START_LIMIT_MS = 120_000;
const STOP_LIMIT_MS = 20_000;
const KEY = 'sk-smoke-test-key';
const CHAT = { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Say hello.' }] };
const ANSWER = JSON.stringify({
  id: 'chatcmpl-smoke',
  object: 'chat.completion',
  created: 1_700_000_000,
  model: 'gpt-4o-mini',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello.' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 },
});

let passed = 0;
let failed = 0;
const folder = mkdtempSync(join(tmpdir(), 'gw-smoke-'));
const cleanUp = [() => rmSync(folder, { recursive: true, force: true })];

try {
  await setUp();
  const upstream = await startUpstream();
  const gateway = await startGateway(upstream);
  await throughEachDoor(gateway, upstream);
  await check('SIGTERM ends it cleanly', () => gateway.stop());
} catch (error) {
  failed += 1;
  process.stdout.write(`FAILED ${error.message}\n`);
} finally {
  for (const action of cleanUp.reverse()) await action();
}
process.stdout.write(`${passed} passed, ${failed} failed\n`);
process.exitCode = failed > 0 ? 1 : 0;

async function startUpstream() {
  const { testCa } = await import('../build/test/support/certificates.js');
  const ca = testCa('Smoke test upstream root');
  const leaf = ca.leaf({ hosts: ['api.openai.com'] });
  const seen = [];
  const server = createServer({ key: leaf.keyPem, cert: leaf.certPem }, (request, response) => {
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => {
      seen.push({ path: request.url, key: request.headers.authorization, body: Buffer.concat(parts).toString() });
      response.writeHead(200, { 'Content-Type': 'application/json' }).end(ANSWER);
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  cleanUp.push(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  const caFile = join(folder, 'upstream-root.pem');
  writeFileSync(caFile, ca.certPem);
  return { port: server.address().port, caFile, seen };
}

async function startGateway(upstream) {
  const started = performance.now();
  const caDir = join(folder, 'ca');
  const dataDir = join(folder, 'data');
  for (const name of [caDir, dataDir]) mkdirSync(name, { mode: 0o700 });
  const environment = {
    ...forTests(process.env),
    GW_PORT: '0',
    GW_AMBIENT_PORT: '0',
    GW_DATA_DIR: dataDir,
    GW_CA_DIR: caDir,
    // Not in the folder of who runs this.
    GW_CONFIG_DIR: 'none',
    GW_UPSTREAM_CONNECT_TO: `api.openai.com:443=127.0.0.1:${upstream.port}`,
    GW_UPSTREAM_CA_FILE: upstream.caFile,
    // Has to be taken out by the launcher: a gateway that obeyed it would dial a closed port instead of the upstream.
    HTTPS_PROXY: 'http://127.0.0.1:9',
  };
  const npm = process.env.npm_execpath ? [process.execPath, process.env.npm_execpath] : ['npm'];
  const child = spawn(npm[0], [...npm.slice(1), 'start', '--silent'], {
    cwd: projectRoot,
    env: environment,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (part) => (text += part));
  const ended = new Promise((resolve) => child.on('exit', (code, signal) => resolve({ code, signal })));
  cleanUp.push(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await ended;
  });

  const found = await waitFor(() => readStartText(text), START_LIMIT_MS, ended);
  if (found === undefined) throw new Error(`npm start did not say where it listens:\n${text}`);
  passed += 1;
  process.stdout.write(`ok     npm start, ${((performance.now() - started) / 1000).toFixed(1)} s: ${found.proxy}, ${found.ambient}\n`);
  return {
    ...found,
    adminToken: readFileSync(found.adminTokenFile, 'utf8').trim(),
    async stop() {
      child.kill('SIGTERM');
      const timeout = new Promise((resolve) => setTimeout(resolve, STOP_LIMIT_MS, undefined).unref());
      const end = await Promise.race([ended, timeout]);
      if (end === undefined) throw new Error(`still running ${STOP_LIMIT_MS / 1000} s after SIGTERM:\n${text}`);
      if (end.code !== 0) throw new Error(`exit code ${end.code ?? end.signal}:\n${text}`);
      const closed = await fetch(`${found.proxy}/healthz`).then(
        () => false,
        () => true,
      );
      if (!closed) throw new Error('npm has ended, the gateway still answers');
    },
  };
}

/** What the start-up text says, once it has said all of it. */
function readStartText(text) {
  const value = (pattern) => pattern.exec(text)?.[1];
  const found = {
    proxy: value(/\bproxy\b\s+(http:\/\/[\w.:[\]-]+)/),
    ambient: value(/\bambient\b\s+(http:\/\/[\w.:[\]-]+)/),
    ca: value(/\bca\b\s+(\S*\/\S+)/i),
    adminTokenFile: value(/\badmin token\b[^/\n]*(\/\S+)/),
  };
  return Object.values(found).every((part) => part !== undefined) ? found : undefined;
}

async function waitFor(look, limitMs, ended) {
  let over = false;
  ended.then(() => (over = true));
  const until = performance.now() + limitMs;
  while (performance.now() < until) {
    const found = look();
    if (found !== undefined || over) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return undefined;
}

async function throughEachDoor(gateway, upstream) {
  await check('healthz', async () => {
    const response = await fetch(`${gateway.proxy}/healthz`);
    equal('status', response.status, 200);
  });
  await check('structured API', async () => {
    const response = await fetch(`${gateway.proxy}/v1/actions:execute`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({
        schema: 'gw.action_request.v2',
        org_id: 'default',
        workload_id: 'default',
        credential_hint: KEY,
        action: { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', target_path: '/v1/chat/completions', params: CHAT },
      }),
    });
    const body = await response.json();
    equal('status', response.status, 200, body);
    equal('result', body.result?.body?.id, 'chatcmpl-smoke');
    await checkRecord(gateway, response.headers.get('x-gw-record-id'), 'direct_api', 'developer');
  });
  await check('SDK redirect', async () => {
    const response = await fetch(`${gateway.proxy}/proxy/openai/v1/chat/completions`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${KEY}` },
      body: JSON.stringify(CHAT),
    });
    const body = await response.text();
    equal('status', response.status, 200, body);
    equal('body', body, ANSWER);
    await checkRecord(gateway, response.headers.get('x-gw-record-id'), 'sdk_redirect', 'developer');
  });
  // Only an independent program shows that a client trusts what it is shown.
  const hasCurl = spawnSync('curl', ['--version']).error === undefined;
  if (hasCurl) {
    await check('CONNECT', () => byCurl(gateway, gateway.proxy, 'developer'));
    await check('CONNECT on the ambient port', () => byCurl(gateway, gateway.ambient, 'ambient'));
  } else {
    process.stdout.write('skipped CONNECT: curl not found, npm run peers installs it\n');
  }
  await check('what the upstream saw', () => {
    equal('calls', upstream.seen.length, hasCurl ? 4 : 2);
    for (const { path, key, body } of upstream.seen) {
      equal('path', path, '/v1/chat/completions');
      equal('key', key, `Bearer ${KEY}`);
      equal('body', JSON.stringify(JSON.parse(body)), JSON.stringify(CHAT));
    }
  });
}

async function byCurl(gateway, proxy, trafficClass) {
  const headerFile = join(folder, `headers-${trafficClass}`);
  const { stdout } = await promisify(execFile)('curl', [
    ...[
      '--silent',
      '--show-error',
      '--max-time',
      '20',
      '--noproxy',
      '',
      '--proxy',
      proxy,
      '--cacert',
      gateway.ca,
      '--dump-header',
      headerFile,
    ],
    ...['--header', 'Content-Type: application/json', '--header', `Authorization: Bearer ${KEY}`, '--data', JSON.stringify(CHAT)],
    'https://api.openai.com/v1/chat/completions',
  ]);
  equal('body', stdout, ANSWER);
  const recordId = /^x-gw-record-id:\s*(\S+)/im.exec(readFileSync(headerFile, 'utf8'))?.[1];
  await checkRecord(gateway, recordId, 'connect_proxy', trafficClass);
}

async function checkRecord(gateway, recordId, connectionType, trafficClass) {
  if (!recordId) throw new Error('the answer has no X-GW-Record-ID');
  const response = await fetch(`${gateway.proxy}/v1/records/${recordId}`, { headers: { 'GW-Admin-Token': gateway.adminToken } });
  const record = await response.json();
  equal('record status', response.status, 200, record);
  equal('record_id', record.record_id, recordId);
  equal('decision', record.decision, 'allow');
  equal('connection_type', record.connection_type, connectionType);
  equal('traffic_class', record.traffic_class, trafficClass);
  equal('tokens', `${record.metering?.tokens_in}/${record.metering?.tokens_out}`, '11/7');
}

async function check(name, run) {
  try {
    await run();
    passed += 1;
    process.stdout.write(`ok     ${name}\n`);
  } catch (error) {
    failed += 1;
    process.stdout.write(`FAILED ${name}: ${error.message}\n`);
  }
}

function equal(what, actual, expected, context = undefined) {
  if (actual !== expected) {
    throw new Error(
      `${what} is ${JSON.stringify(actual)}, not ${JSON.stringify(expected)}${context === undefined ? '' : `: ${JSON.stringify(context)}`}`,
    );
  }
}
