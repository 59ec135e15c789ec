// `gw console` at a real gateway: a link that lets one browser in, once, as who has asked for it.
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { ADMIN_TOKEN, type TestGatewayOptions } from '../support/gateway.ts';
import { startManaged } from '../support/managed.ts';
import { gw } from '../support/run-gw.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

async function start(t: HasTeardown, options: TestGatewayOptions = {}) {
  const { gw: gateway, keyOf } = await startManaged(t, options);
  const { managementPort = gateway.port } = gateway.gateway;
  const apart = gateway.gateway.managementPort === undefined ? {} : { GW_MGMT_PORT: String(managementPort) };
  const env = { GW_ADMIN_TOKEN: ADMIN_TOKEN, GW_PORT: String(gateway.port), GW_CONFIG_DIR: 'none', ...apart };
  const run = (line: readonly string[], more: Readonly<Record<string, string>> = {}) => gw(line, { env: { ...env, ...more } });
  const signIn = async (link: string): Promise<unknown> => {
    const { origin, pathname, hash } = new URL(link);
    const response = await fetch(`${origin}/v1/console/sessions`, {
      method: 'POST',
      headers: { 'gw-console': '1' },
      body: JSON.stringify({ code: hash.replace('#code=', '') }),
    });
    return { origin, pathname, status: response.status, ...((await response.json()) as object) };
  };
  return { run, signIn, keyOf, gateway, origin: `http://127.0.0.1:${managementPort}` };
}

t.test('prints a link of the admin token, or of a management key', async (t) => {
  const { run, signIn, keyOf, origin } = await start(t);
  const asAdmin = await run(['console', '--print']);
  t.match(asAdmin, { code: 0, err: '', out: new RegExp(`^${origin}/console#code=[\\w-]{43}\\n?$`) });
  t.match(await signIn(asAdmin.out), { origin, pathname: '/console', status: 201, session: { kind: 'admin' } });
  t.match(await signIn(asAdmin.out), { status: 401 });
  const { key, id } = await keyOf('acme');
  for (const asKey of [await run(['console', '--print', '--key', key]), await run(['console', '--print'], { GW_MGMT_KEY: key })])
    t.match(await signIn(asKey.out), { status: 201, session: { kind: 'management_key', key_id: id, org_id: 'acme' } });
  const asJson = JSON.parse((await run(['console', '--json'])).out) as { url: string; expires_at: string };
  t.match(await signIn(asJson.url), { status: 201 });
  t.match(asJson.expires_at, /^\d{4}-.*Z$/);
  t.match(await run(['console', '--print', '--key', 'mgk_wrong']), { code: 2, err: /does not accept the management key/ });
  t.match(await run(['console', '--print', '--key', 'gwk_x']), { code: 2, err: /takes a management key/ });
});

t.test('asks where the management API is', async (t) => {
  const { run, origin, signIn } = await start(t, { env: { GW_MGMT_PORT: '0' } });
  t.match(await signIn((await run(['console', '--print'])).out), { origin, status: 201 });
});

t.test('says so where the console is switched off', async (t) => {
  const { run } = await start(t, { env: { GW_CONSOLE_ENABLED: 'false' } });
  t.match(await run(['console', '--print']), { code: 1, err: /There is nothing at \/v1\/console\/links/ });
});

t.test('hands the link to what opens a browser, and prints it where nothing does', { skip: process.platform !== 'linux' }, async (t) => {
  const { run, signIn, origin } = await start(t);
  const folder = tempDir(t);
  const seen = join(folder, 'seen');
  const opener = (code: number): void => {
    writeFileSync(join(folder, 'xdg-open'), `#!/bin/sh\nprintf %s "$1" > '${seen}'\nexit ${code}\n`);
    chmodSync(join(folder, 'xdg-open'), 0o755);
  };
  opener(0);
  t.match((await run(['console'], { PATH: folder })).out, /#code=/, 'nobody sits at a screen');
  t.notOk(existsSync(seen));
  const opened = await run(['console'], { PATH: folder, DISPLAY: ':0' });
  t.match(opened, { code: 0, err: '', out: /^The console is open in the browser: http:\/\/127\.0\.0\.1:\d+\/console\n?$/ });
  t.match(await signIn(readFileSync(seen, 'utf8')), { origin, status: 201 });
  opener(3);
  const failed = await run(['console'], { PATH: folder, DISPLAY: ':0' });
  t.match(await signIn(failed.out), { origin, status: 201 });
});
