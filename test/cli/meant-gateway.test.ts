// Which of the gateways that were started here a command means (decision 12.15).
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { type AskedGateway, type FoundBy, foundConfig, meantGateway } from '../../src/cli/gateways/find-gateway.ts';
import { type RememberedGateway, rememberedGateways, rememberGateway } from '../../src/cli/gateways/remembered-gateways.ts';
import { gw } from '../support/run-gw.ts';
import { tempDir } from '../support/temp-dir.ts';

const NOBODY = '/nowhere';

function noted(
  name: string,
  port: number,
  more: Partial<RememberedGateway> = {},
  settings: Readonly<Record<string, string>> = {},
): RememberedGateway {
  return {
    settings: {
      GW_HOST: '127.0.0.1',
      GW_PORT: String(port),
      GW_AMBIENT_PORT: String(port + 1),
      GW_DATA_DIR: `/srv/${name}/data`,
      GW_CA_DIR: `/srv/${name}/ca`,
      ...settings,
    },
    folder: `/srv/${name}`,
    node_id: name,
    version: '1.0.0',
    pid: process.pid,
    started_at: new Date(Date.now() - port).toISOString(),
    root_sha256: [],
    ...more,
  };
}

const ENDED = { stopped_at: '2026-11-26T12:00:00.000Z' };
/** The one that was started last first. */
const ALL = [noted('c', 7300, ENDED), noted('b', 7200, {}, { GW_HOST: '0.0.0.0', GW_PUBLIC_NAMES: 'gw.example,gw' }), noted('a', 7100)];

type Case = readonly [
  what: string,
  env: Readonly<Record<string, string>>,
  asked: AskedGateway,
  folder: string,
  name?: string,
  by?: FoundBy,
];
const CASES: readonly Case[] = [
  ['the last that runs', {}, {}, NOBODY, 'b', 'last'],
  ['the folder', {}, {}, '/srv/a', 'a', 'folder'],
  ['the folder, though it has ended', {}, {}, '/srv/c', 'c', 'folder'],
  ['an empty variable is none', { GW_PORT: '', GW_DATA_DIR: '' }, {}, NOBODY, 'b', 'last'],
  ['a port', { GW_PORT: '7100' }, {}, '/srv/b', 'a', 'environment'],
  ['any port', { GW_PORT: '0' }, {}, NOBODY, 'b', 'environment'],
  ['a folder by its relative path', { GW_DATA_DIR: './data' }, {}, '/srv/a', 'a', 'environment'],
  ['two that disagree', { GW_PORT: '7100', GW_DATA_DIR: '/srv/b/data' }, {}, NOBODY],
  ['a port of nobody', { GW_PORT: '7999' }, {}, '/srv/a'],
  ['other settings name none', { GW_ADMIN_TOKEN: 'x', GW_LOG_LEVEL: 'debug' }, {}, NOBODY, 'b', 'last'],
  ['an address', {}, { url: 'http://localhost:7100/' }, '/srv/b', 'a', 'option'],
  ['an address by a name', {}, { url: 'https://gw.example:7200' }, NOBODY, 'b', 'option'],
  ['its second port', {}, { url: 'http://127.0.0.1:7101' }, NOBODY, 'a', 'option'],
  ['an address of another machine', {}, { url: 'http://gw.example:7100' }, '/srv/a'],
  ['an address that is none', {}, { url: 'nonsense' }, '/srv/a'],
  ['a port as an option', {}, { port: '7201' }, '/srv/a', 'b', 'option'],
  ['a port as an option, against the environment', { GW_PORT: '7100' }, { port: '7200' }, NOBODY],
];

t.test('options before the environment, that before the folder, that before what is noted', async (t) => {
  for (const [what, env, asked, folder, name, by] of CASES) {
    const found = meantGateway(ALL, env, asked, folder);
    t.same([found?.gateway.node_id, found?.by], [name, by], what);
  }
  t.equal(meantGateway([], {}, {}, NOBODY), undefined);
});

t.test('a folder that has what a gateway keeps is that one, though nothing is noted of it', async (t) => {
  const folder = tempDir(t);
  mkdirSync(join(folder, 'data'));
  writeFileSync(join(folder, 'data', 'admin-token'), 'x');
  t.equal(meantGateway(ALL, {}, {}, folder), undefined);
});

t.test(
  'the environment counts over what is noted, one setting at a time; a token that is given takes the place of the other',
  async (t) => {
    const home = tempDir(t);
    const file = join(home, 'token');
    writeFileSync(file, 'the-token-of-the-gateway');
    mkdirSync(join(home, 'data'));
    const own = {
      GW_DATA_DIR: join(home, 'data'),
      GW_ADMIN_TOKEN_FILE: file,
      GW_ORG_ID: 'acme',
      GW_HOST: '0.0.0.0',
      GW_PROXY_AUTH: 'required',
    };
    t.ok(await rememberGateway(home, noted('d', 7400, {}, own)));
    const env = { GW_CONFIG_DIR: home };
    const { config, found } = foundConfig(env, {}, NOBODY);
    t.match(config, {
      port: 7400,
      ambientPort: 7401,
      orgId: 'acme',
      adminToken: 'the-token-of-the-gateway',
      host: '0.0.0.0',
      proxyAuth: 'required',
    });
    t.equal(found?.by, 'last');
    t.match(foundConfig({ ...env, GW_ORG_ID: 'other', GW_ADMIN_TOKEN: 'given-in-the-shell' }, {}, NOBODY).config, {
      port: 7400,
      orgId: 'other',
      adminToken: 'given-in-the-shell',
    });
    t.equal(foundConfig({ GW_CONFIG_DIR: 'none', HOME: home }, {}, NOBODY).config.port, 7080);
  },
);

t.test('what is damaged, too large or of another form is none, and 32 are kept', async (t) => {
  const home = tempDir(t);
  mkdirSync(join(home, 'data'));
  mkdirSync(join(home, 'gateways'));
  const texts = [
    '',
    '{',
    '[]',
    '{"schema":"gw.remembered_gateway.v1"}',
    JSON.stringify({ schema: 'other', ...noted('a', 1) }),
    ' '.repeat(100_000),
  ];
  for (const [at, text] of texts.entries()) writeFileSync(join(home, 'gateways', `${at}.json`), text);
  t.same(rememberedGateways(home), []);
  for (let at = 0; at < 40; at += 1) {
    const data = join(home, `data${at}`);
    mkdirSync(data);
    await rememberGateway(home, noted(String(at), 7_000 - at, ENDED, { GW_DATA_DIR: data }));
  }
  const kept = rememberedGateways(home).map(({ node_id: name }) => name);
  t.equal(kept.length, 32);
  t.same([kept[0], kept.at(-1)], ['39', '8']);
});

t.test('a command with a management key means the gateway of its address, as one with the admin token does', async (t) => {
  const home = tempDir(t);
  // Ports at which nobody listens: what a command says then tells which gateway it means.
  for (const [name, port] of [
    ['a', 1],
    ['b', 3],
  ] as const) {
    const data = join(home, name);
    mkdirSync(data);
    t.ok(await rememberGateway(home, noted(name, port, ENDED, { GW_DATA_DIR: data })));
  }
  const key = `mgk_${'k'.repeat(43)}`;
  for (const command of ['audit list', 'domains list', 'approvals list', 'logs', 'workloads list'])
    for (const [shown, env] of [
      [['--key', key], {}],
      [[], { GW_ADMIN_TOKEN: 'token-of-the-test' }],
    ] as const)
      for (const [port, name] of [
        ['1', 'a'],
        ['3', 'b'],
      ] as const) {
        const { code, err } = await gw([...command.split(' '), ...shown, '--url', `http://127.0.0.1:${port}`], {
          env: { GW_CONFIG_DIR: home, ...env },
        });
        t.not(code, 0, command);
        t.match(err, `the gateway of /srv/${name} was stopped`, `${command} ${shown.join(' ')}`);
      }
});

t.test('a gateway that was named by its address is none of the others, whatever else the shell says', async (t) => {
  const home = tempDir(t);
  for (const [name, port] of [
    ['a', 1],
    ['b', 3],
  ] as const) {
    const data = join(home, name);
    mkdirSync(data);
    t.ok(await rememberGateway(home, noted(name, port, ENDED, { GW_DATA_DIR: data })));
  }
  const env = { GW_CONFIG_DIR: home, GW_PORT: '3' };
  const { out } = await gw(['status', '--url', 'http://127.0.0.1:1', '--json'], { env });
  t.match(JSON.parse(out), { url: 'http://127.0.0.1:1', others: [{ port: 3 }] });
  t.equal((JSON.parse(out) as { others: unknown[] }).others.length, 1);
});
