/* `gw control-plane …` against a control plane (decision 13.6). */
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { controlPlaneCommandName } from '../../src/cli/control-plane/control-plane-commands.ts';
import { allCommands } from '../../src/cli/run.ts';
import { ADMIN_OPERATIONS } from '../../src/control-plane/admin/admin-operation-table.ts';
import { eventually, launch } from '../support/child.ts';
import { MAIN } from '../support/gateway-process.ts';
import { gw } from '../support/run-gw.ts';
import { PLANE_BUNDLE, startPlane } from '../support/running-control-plane.ts';
import { tempDir } from '../support/temp-dir.ts';

t.test('every operation of the control plane is a command', async (t) => {
  const names = new Set((await allCommands()).map(({ name }) => name));
  for (const { id } of ADMIN_OPERATIONS) t.ok(names.has(controlPlaneCommandName(id)), id);
});

t.test('the commands make and show what the API does', async (t) => {
  const { env, plane } = await startPlane(t);
  const cp = (line: string, stdin?: string) =>
    gw(['control-plane', ...line.split(' ')], { env, ...(stdin === undefined ? {} : { stdin }) });
  const json = async (line: string, stdin?: string) => JSON.parse((await cp(`${line} --json`, stdin)).out) as Record<string, unknown>;

  await t.test('an org', async (t) => {
    t.match(await cp('org list'), { code: 0, out: 'There are no orgs.\n' });
    t.match(await json('org put acme --cp-down-policy strict --grace-seconds 60'), { org_id: 'acme', grace_seconds: 60 });
    t.match((await cp('org list')).out, /^ORG +STATUS[\s\S]*^acme +active +enterprise +- +strict/m);
    t.match((await cp('org get acme')).out, /^grace_seconds: +60$/m);
    t.match(await cp('org put acme --grace-seconds soon'), { code: 2, err: /--grace-seconds takes a whole number/ });
    t.match(await cp('org put acme --suspended-reason null'), { code: 0 });
    const names = (out: string) => out.split('\n').map((line) => line.split(':')[0]);
    t.strictSame(
      names((await cp('org put acme')).out),
      names((await cp('org put other')).out),
      'one order for a new org and a changed one',
    );
  });

  await t.test('a bootstrap token, with the settings of the gateway that is to use it', async (t) => {
    const { code, out } = await cp('token create acme');
    t.equal(code, 0);
    const [token = ''] = out.split('\n');
    t.match(token, /^gwb_/);
    t.ok(out.endsWith(`GW_CP_ADDR=127.0.0.1:${plane.grpcPort}\nGW_ORG_ID=acme\nGW_KEY_DIR=./keys\nGW_BOOTSTRAP_TOKEN=${token}\n`), out);
    t.match(await json('token create acme --ttl-seconds 5 --address plane.example.com:7443'), {
      token: /^gwb_/,
      expires_at: '2026-11-24T12:00:05.000Z',
      settings: { GW_CP_ADDR: 'plane.example.com:7443', GW_ORG_ID: 'acme' },
    });
    t.match(await cp('token create nobody'), { code: 1, err: /There is no org nobody/ });
    t.match(await cp('token create acme --address nowhere'), { code: 2, err: /--address takes HOST:PORT/ });
  });

  await t.test('keys follow one another', async (t) => {
    t.match(await cp('keys rotate ledger --in 2h'), {
      code: 0,
      out: /^current +ledger-[0-9a-f]{16}\nnext +ledger-[0-9a-f]{16} +from .*Z\n.*public-key list/,
    });
    t.match(await cp('keys rotate ledger'), { code: 1, err: /There is a next key/ });
    t.match((await cp('public-key list')).out, /^KID +USE +STATE +FROM/);
    t.match(await json('keys status ledger'), { use: 'ledger', switch_at: /Z$/, unaware_nodes: 0 });
    t.match(await cp('keys rotate ledger --cancel'), { code: 0, out: /^current +ledger-[0-9a-f]{16}\n$/ });
    t.match(await cp('keys rotate bundle --switch-at 2020-01-01T00:00:00Z --json'), { code: 0, out: /"state":"former"/ });
    t.match(await cp('keys rotate bundle --finish --yes'), { code: 0, out: /^current +bundle-[0-9a-f]{16} +from .*Z\n$/ });
    t.match(await cp('keys rotate bundle --finish'), { code: 1, err: /There is no former key/ });
    for (const [line, err] of [
      ['keys rotate roots', /it takes ledger, bundle or ca/],
      ['keys rotate ledger --in soon', /--in takes a duration/],
      ['keys rotate ledger --switch-at soon', /--switch-at takes a time/],
      ['keys rotate ledger --in 1h --cancel', /one can be given/],
      ['keys rotate ledger --yes', /--yes belongs to --finish/],
    ] as const)
      t.match(await cp(line), { code: 2, err }, line);
  });

  await t.test('a bundle, from a file or standard input and back', async (t) => {
    const file = join(tempDir(t), 'bundle.yaml');
    writeFileSync(file, PLANE_BUNDLE);
    t.match((await cp(`bundle put acme ${file}`)).out, /^sequence: +1$/m);
    t.match(await json('bundle put acme -', PLANE_BUNDLE.replace('"1"', '"2"')), { version: '2', sequence: 2 });
    t.equal((await cp('bundle get acme --yaml')).out, PLANE_BUNDLE.replace('"1"', '"2"'));
    t.match(await json('bundle read acme'), { version: '2', bundle_yaml: String });
    const refused = await cp('bundle put acme -', PLANE_BUNDLE.replace('allow', 'perhaps'));
    t.match(refused, { code: 1, err: /^gw control-plane bundle put: The bundle does not load:\n(?:(?: {2}.*)?\n)+$/ }, 'line by line');
    t.notMatch(refused.err, '\\u{', 'no line break is written out');
    t.equal(refused.err.split('unknown decision "perhaps"').length, 2, 'it is said once');
    const emptied = `${PLANE_BUNDLE.split('inline_rules')[0]}`;
    t.match(await cp('bundle put acme -', emptied), { code: 1, err: /Nothing was changed\. It would lose [\s\S]*Here --yes says so/ });
    t.match(await cp('bundle put acme - --dry-run', emptied), { code: 0, out: /^- rule [\s\S]*Nothing has been changed yet\.\n$/ });
    t.match(await json('bundle read acme'), { version: '2' });
    t.match(await cp('bundle put acme'), { code: 2, err: /it takes ORG and the FILE/ });
    t.match(await cp('bundle put acme /nowhere/bundle.yaml'), { code: 2, err: /bundle\.yaml/ });
  });

  await t.test(
    'what leaves nothing allowed is asked for: a first bundle, a later one, an overlay, an overlay that is taken away',
    async (t) => {
      const nothing = 'schema: gw.policy_bundle.v1\nbundle_id: none\nversion: "1"\n';
      const all = (rule: string) => `${nothing}inline_rules:\n  identity:\n    - ${rule}\n`;
      const deny = all('{id: none, effect: {decision: deny}}');
      await cp('org put closed');
      const refused = await cp('bundle put closed -', nothing);
      t.match(refused, {
        code: 1,
        out: '',
        err: /^gw control-plane bundle put: Nothing was changed\. No call could be let through any more: no rule of it allows anything\./,
      });
      t.match(refused.err, /Here --yes says so, and --dry-run shows everything\.\n$/);
      t.notMatch(refused.err, /confirm: true|merge: true|denies_all/, 'what is asked by HTTP is not typed here');
      t.match(await cp('bundle put closed - --json', deny), { code: 1, out: '', err: /no rule of it allows anything/ });
      t.match(await cp('bundle get closed'), { code: 1, err: /There is no bundle/ });
      const dir = tempDir(t);
      const file = join(dir, 'deny.yaml');
      writeFileSync(file, deny);
      const terminal = (line: string, answer: string) => gw(['control-plane', ...line.split(' ')], { env, columns: 80, lines: [answer] });
      t.match(await terminal(`bundle put closed ${file}`, 'n'), {
        code: 1,
        out: /^! denies {2}no call can be let through/m,
        err: /Do it\? /,
      });
      t.match(await cp('bundle get closed'), { code: 1 });
      t.match(await cp('bundle put closed - --yes', deny), { code: 0, out: /^! denies/m });
      t.match(
        await cp('bundle put closed -', nothing),
        { code: 1, err: /No call could be let through/ },
        'it is asked of each whole policy',
      );
      t.match(await cp(`overlay put acme org --bundle-yaml-from ${file}`), {
        code: 1,
        err: /No call could be let through any more: [\s\S]*Here --yes/,
      });
      t.match(await cp('overlay list acme'), { out: 'There are no overlays.\n' });
      t.match(await cp(`overlay put acme org --bundle-yaml-from ${file} --yes`), { code: 0, out: /^! denies [\s\S]*It is in force\.\n$/m });
      t.match(await cp('overlay remove acme org'), { code: 0 }, 'what takes nothing away is not asked for');
      const opens = all('{id: all, when: {field: context.org_id, exists: true}, effect: {decision: allow}}');
      t.match(await cp('bundle put closed - --yes', nothing), { code: 0 });
      writeFileSync(file, opens);
      t.match(await cp(`overlay put closed org ${file}`), { code: 0 });
      t.match(await cp('overlay put closed'), { code: 2, err: /ORG ID \[FILE\|-\]/ });
      t.match(await cp('overlay remove closed org'), { code: 1, err: /No call could be let through any more/ });
      t.match(await cp('overlay remove closed org --dry-run'), {
        code: 0,
        out: /^- rule .* lost: it is not there any more\n[\s\S]*Nothing has been changed yet/,
      });
      t.match((await cp('overlay list closed')).out, /^ID +LEVEL +PUT +SIGNED BY\norg +org +\d/, 'its text has no place in a table');
      t.match(await json('overlay remove closed org --yes'), { status: 'deleted', change: { denies_all: true } });
    },
  );

  await t.test('what an org gives its gateways', async (t) => {
    t.match(await json('workload put acme app --name App'), { id: 'app', name: 'App' });
    const key = join(tempDir(t), 'key');
    writeFileSync(key, 'sk-from-a-file\n');
    const made = await cp(
      `credential put acme openai --connector-id openai --mode byok --distribution node_scoped --secret-ref-from ${key}`,
    );
    t.match(made, { code: 0, out: /^id: +openai$/m });
    t.notMatch(made.out, 'sk-from-a-file');
    t.match(await json('credential assign acme openai node-1'), { node_ids: ['node-1'] });
    t.match(await json('credential unassign acme openai node-1'), { node_ids: [] });
    const destination = 'export-destination put acme siem --name SIEM --kind webhook --config.url https://siem.example/events';
    t.match(await json(destination), { id: 'siem', kind: 'webhook' });
    t.match(await json('addon put acme provider-openai --enabled true'), { id: 'provider-openai', enabled: true });
    t.match((await cp('workload list acme')).out, /^app /m);
    t.match(await cp('workload remove acme app'), { code: 0 });
    t.match(await cp('workload read acme app'), { code: 1, err: /There is no workload app/ });
    const { id, key: plain } = await json('key create acme --name ci');
    t.match(String(plain), /^gwk_/);
    t.match(await cp(`key revoke acme ${String(id)}`), { code: 0 });
    t.match((await cp('node list acme')).out, 'There are no nodes.');
  });

  await t.test('what is open to everybody needs no token', async (t) => {
    const open = { CP_HTTP_PORT: String(plane.httpPort), CP_DATA_DIR: tempDir(t) };
    const ask = (line: string) => gw(['control-plane', ...line.split(' ')], { env: open });
    t.match(await ask('ca read'), { code: 0, out: /^-----BEGIN CERTIFICATE-----/ });
    t.match(JSON.parse((await ask('ca read --json')).out), { text: /BEGIN CERTIFICATE/ });
    t.match((await ask('public-key list')).out, /^KID/);
    t.match((await ask('health')).out, /^status: +ok$/m);
    t.match((await ask('root list acme')).out, 'There are no roots.');
    t.match(await ask('org list'), {
      code: 2,
      err: /there is no admin token: .*admin-token cannot be read, and CP_ADMIN_TOKEN is not set; run this in the folder in which the control plane was started, or set/,
    });
  });

  t.test('a wrong token, a wrong address and nobody there are said in words', async (t) => {
    t.match(await cp('org list --token wrong'), { code: 2, err: /does not accept the admin token/ });
    t.match(await cp('org list --url nonsense'), { code: 2, err: /--url takes the address/ });
    t.match(await cp('org list --url http://127.0.0.1:1'), { code: 2, err: /cannot be asked/ });
    t.match(await gw(['control-plane', 'org', 'list'], { env: { CP_HTTP_PORT: 'many' } }), { code: 2, err: /CP_HTTP_PORT: "many"/ });
  });

  await t.test('who has changed what', async (t) => {
    t.match((await cp('audit list --operation org.put --wide')).out, /^TIME +OPERATION[\s\S]* org\.put +acme/m);
    const told = (await cp('audit list --operation overlay.put')).out;
    t.match(told, /^\S+ {2}overlay\.put {2}org\n {2}admin added rule [\s\S]*\n {2}\+ \{/m, 'which rule it was');
    t.notMatch(told, /cp_|signature|sequence|not shown/);
  });
});

t.test('gw control-plane start says where it is, keeps its token to its owner, and ends at SIGTERM', async (t) => {
  const dir = join(tempDir(t), 'data');
  const env = { CP_GRPC_PORT: '0', CP_HTTP_PORT: '0', CP_DATA_DIR: dir, CP_COLOUR: 'red' };
  const child = launch(t, process.execPath, [MAIN, 'control-plane', 'start'], { env });
  const url = await eventually('the announcement', () => /^ {2}admin API +(http:\/\/127\.0\.0\.1:\d+)\/v1$/m.exec(child.stdout)?.[1]);
  t.match(child.stdout, /^ {2}gateways +127\.0\.0\.1:\d+$/m);
  t.match(child.stderr, 'warning: "CP_COLOUR" is not a setting');
  t.equal(statSync(join(dir, 'admin-token')).mode & 0o777, 0o600);
  const asked = { CP_DATA_DIR: dir };
  t.match(await gw(['control-plane', 'org', 'put', 'acme', '--url', url], { env: asked }), { code: 0 });
  t.match((await gw(['control-plane', 'org', 'list', '--url', url], { env: asked })).out, 'acme');
  child.kill('SIGTERM');
  t.equal((await child.ended).code, 0);
});
