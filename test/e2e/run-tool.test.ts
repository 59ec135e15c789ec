// Programs of every kind by `gw run`, in front of the demo's stand-in: nothing of what they ask for leaves the machine.
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { STAND_IN_TEXT } from '../../src/cli/demo/stand-in-answers.ts';
import { type ChildOptions, eventually, launch, run } from '../support/child.ts';
import { gatewayEnvironment, MAIN } from '../support/gateway-process.ts';
import { type PeerName, requirePeer, skipWithout } from '../support/peers.ts';
import { gw } from '../support/run-gw.ts';
import { type StandInGateway, startStandInGateway } from '../support/stand-in-gateway.ts';
import { tempDir } from '../support/temp-dir.ts';
import { TOOL_PROGRAMS } from '../support/tool-programs.ts';

async function throughGateway(t: Test, gateway: StandInGateway, command: readonly string[], options: ChildOptions = {}) {
  const home = tempDir(t);
  const env = { HOME: home, OPENAI_API_KEY: 'sk-fake', ...gateway.settings, ...options.env };
  return run(t, process.execPath, [MAIN, 'run', '--', ...command], { cwd: home, timeoutMs: 900_000, ...options, env });
}

async function countOfRecords({ settings }: StandInGateway): Promise<number> {
  const { out } = await gw(['records', 'list', '--all', '--json', '--decision', 'allow'], { env: { ...settings } });
  return out.split('\n').filter((line) => line !== '').length;
}

/** How each program is run, with the file that it is. */
const PROGRAMS: readonly {
  name: string;
  peers: readonly PeerName[];
  file: string;
  text: string;
  command: (file: string) => readonly string[];
}[] = [
  { name: 'Node 20', peers: [], file: 'call.mjs', text: TOOL_PROGRAMS.node, command: (file) => [process.execPath, file] },
  { name: 'Node 24', peers: ['node24'], file: 'call.mjs', text: TOOL_PROGRAMS.node, command: (file) => [requirePeer('node24'), file] },
  {
    name: 'Python with requests',
    peers: ['python3-requests'],
    file: 'call.py',
    text: TOOL_PROGRAMS.python,
    command: (file) => [requirePeer('python3-requests'), file, 'requests'],
  },
  {
    name: 'Python with httpx',
    peers: ['python3-httpx'],
    file: 'call.py',
    text: TOOL_PROGRAMS.python,
    command: (file) => [requirePeer('python3-httpx'), file, 'httpx'],
  },
  { name: 'Go', peers: ['go'], file: 'call.go', text: TOOL_PROGRAMS.go, command: (file) => [requirePeer('go'), 'run', file] },
  {
    name: 'Java',
    peers: ['java'],
    file: 'Call.java',
    text: TOOL_PROGRAMS.java,
    command: (file) => [requirePeer('java'), file],
  },
  {
    name: 'curl',
    peers: ['curl'],
    file: 'body.json',
    text: '{"model": "gpt-4o-mini", "messages": []}',
    command: (file) => [
      requirePeer('curl'),
      '-sS',
      'https://api.openai.com/v1/chat/completions',
      '-H',
      'Authorization: Bearer k',
      '--json',
      `@${file}`,
    ],
  },
];

for (const { name, peers, file, text, command } of PROGRAMS) {
  t.test(`${name} calls a provider that it knows nothing new of`, { skip: skipWithout(peers) }, async (t) => {
    const gateway = await startStandInGateway(t);
    const path = join(tempDir(t), file);
    writeFileSync(path, text);
    const { code, stdout, stderr } = await throughGateway(t, gateway, command(path));
    t.equal(code, 0, stderr);
    t.match(stdout, STAND_IN_TEXT);
    t.equal(await countOfRecords(gateway), 1);
  });
}

/** Programs that use the SDK of a provider, as its readme shows it. */
const SDK_PROGRAMS: readonly (readonly [sdk: string, text: string])[] = [
  [
    'openai',
    `import OpenAI from 'openai';
const answer = await new OpenAI().chat.completions.create({ model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Say hello.' }] });
console.log(answer.choices[0].message.content);
`,
  ],
  [
    '@anthropic-ai/sdk',
    `import Anthropic from '@anthropic-ai/sdk';
const answer = await new Anthropic().messages.create({ model: 'claude-haiku-4-5', max_tokens: 50, messages: [{ role: 'user', content: 'Say hello.' }] });
console.log(answer.content[0].text);
`,
  ],
];

for (const [name, node, peers] of [
  ['Node 20', () => process.execPath, []],
  ['Node 24', () => requirePeer('node24'), ['node24']],
] as const) {
  t.test(`${name} with the SDKs of providers, which have a fetch of their own or none`, { skip: skipWithout(peers) }, async (t) => {
    const gateway = await startStandInGateway(t);
    const folder = tempDir(t);
    symlinkSync(join(packageRoot(), 'node_modules'), join(folder, 'node_modules'));
    for (const [at, [sdk, text]] of SDK_PROGRAMS.entries()) {
      const file = join(folder, `call-${at}.mjs`);
      writeFileSync(file, text);
      const env = { ANTHROPIC_API_KEY: 'sk-ant-fake' };
      t.match(await throughGateway(t, gateway, [node(), file], { env }), { code: 0, stdout: STAND_IN_TEXT, stderr: '' }, sdk);
    }
    t.equal(await countOfRecords(gateway), SDK_PROGRAMS.length);
  });
}

t.test('git trusts what the gateway shows it', { skip: skipWithout(['git']) }, async (t) => {
  const gateway = await startStandInGateway(t);
  const { code, stderr } = await throughGateway(t, gateway, [requirePeer('git'), 'ls-remote', 'https://api.openai.com/none.git'], {
    env: { GIT_TERMINAL_PROMPT: '0' },
  });
  t.equal(code, 128);
  t.match(stderr, /not found/, 'the answer of the stand-in, and no complaint about its certificate');
});

t.test('it ends as its program ends, and hands on what it is sent', async (t) => {
  const gateway = await startStandInGateway(t);
  const node = (script: string) => [process.execPath, '-e', script];
  t.match(await throughGateway(t, gateway, node('process.exit(7)')), { code: 7, stderr: '' });
  t.match(await throughGateway(t, gateway, node('process.kill(process.pid, "SIGKILL")')), { code: 137 });
  t.match(await throughGateway(t, gateway, ['no-such-program-at-all']), {
    code: 127,
    stderr: 'gw run: there is no program "no-such-program-at-all"\n',
  });
  const script = join(tempDir(t), 'not-executable');
  writeFileSync(script, 'true');
  chmodSync(script, 0o644);
  t.match(await throughGateway(t, gateway, [script]), { code: 126, stderr: /is no program that may be run/ });
  const echoed = await throughGateway(t, gateway, node('process.stdin.pipe(process.stdout)'), { input: 'through' });
  t.match(echoed, { code: 0, stdout: 'through' });
  const help = await throughGateway(t, gateway, node('console.log(process.argv.slice(1).join())').concat('--', '--help'));
  t.match(help, { code: 0, stdout: '--help\n' }, 'options of the program are its own');
});

t.test('a signal reaches the program, whose end is the end', async (t) => {
  const gateway = await startStandInGateway(t);
  const script = "process.on('SIGTERM', () => process.exit(9)); setInterval(() => {}, 1000); console.log('ready')";
  const child = launch(t, process.execPath, [MAIN, 'run', '--', process.execPath, '-e', script], { env: { ...gateway.settings } });
  await eventually('the program', () => (child.stdout.includes('ready') ? true : undefined));
  child.kill('SIGTERM');
  t.equal((await child.ended).code, 9);
});

t.test('without a gateway it says so and runs nothing; with --start it brings one', async (t) => {
  const env = gatewayEnvironment(t);
  mkdirSync(String(env['GW_DATA_DIR']), { recursive: true });
  const of = (...args: string[]) => run(t, process.execPath, [MAIN, 'run', ...args], { env });
  const ran = ['--', process.execPath, '-e', 'console.log(process.env.HTTPS_PROXY)'];
  t.match(await of('--port', '1', ...ran), {
    code: 125,
    stdout: '',
    stderr: /^gw run: no gateway answers: http:\/\/127\.0\.0\.1:1 .*--start\n$/,
  });
  t.match(await of('--start', ...ran), { code: 0, stdout: /^http:\/\/127\.0\.0\.1:\d+\n$/ });
  t.match(await of('--workload', 'a:b', ...ran), { code: 2, stderr: /--workload takes the id of a workload/ });
  t.match(await of('--start'), { code: 2, stderr: /it takes the program to run/ });
});

t.test('a workload and its token are in the address of the proxy, and nowhere on a command line', async (t) => {
  const gateway = await startStandInGateway(t);
  const file = join(tempDir(t), 'token');
  writeFileSync(file, 'gwt_secret/token\n');
  const { stdout } = await run(
    t,
    process.execPath,
    [MAIN, 'run', '--workload', 'team-a', '--token-file', file, '--', process.execPath, '-e', 'console.log(process.env.HTTPS_PROXY)'],
    { env: { ...gateway.settings } },
  );
  t.equal(stdout, `http://team-a:gwt_secret%2Ftoken@127.0.0.1:${gateway.port}\n`);
});

t.test('a token is found in what the command printed that made it', async (t) => {
  const { settings, port, admin } = await startStandInGateway(t, { env: { GW_PROXY_AUTH: 'required' } });
  await admin('PUT', '/v1/admin/workloads', { workload_id: 'ci' });
  const { token } = (await admin('POST', '/v1/admin/workloads/ci/token')).body as { token: string };
  const file = join(tempDir(t), 'ci.token');
  const printed = async (content: string, own: Record<string, string> = {}) => {
    writeFileSync(file, content);
    const given = own['GW_WORKLOAD_TOKEN'] === undefined ? ['--token-file', file] : [];
    return await gw(['env', '--workload', 'ci', ...given], { env: { ...settings, XDG_CACHE_HOME: tempDir(t), ...own } });
  };
  const proxy = `export HTTPS_PROXY='http://ci:${token}@127.0.0.1:${port}'`;
  const asTable = `workload_id: ci\ntoken:       ${token}\n`;
  for (const content of [token, ` ${token}\r\n`, asTable, JSON.stringify({ workload_id: 'ci', token })]) {
    const { out, err } = await printed(content);
    t.equal(out.split('\n', 1)[0], proxy, content);
    t.equal(err, '', content);
  }
  t.equal((await printed('', { GW_WORKLOAD_TOKEN: asTable })).out.split('\n', 1)[0], proxy, 'GW_WORKLOAD_TOKEN="$(gw workloads token ci)"');
  for (const content of ['', 'two words', '{"workload_id": "ci"}', 'mgk_abc']) {
    const said = { code: 2, out: '', err: /ci\.token holds no token of a workload \(gwt_…\) and no API key \(gwk_…\)/ };
    t.match(await printed(content), said, content);
  }
  t.match(await printed(`${token} gwt_another`), { code: 2, err: /ci\.token holds more than one token or API key/ });
  t.match(await printed('', { GW_WORKLOAD_TOKEN: 'two words' }), { code: 2, err: /GW_WORKLOAD_TOKEN holds no token/ });
});
