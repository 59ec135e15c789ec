// What `gw` says of itself: how commands are used, in lines that a terminal shows whole, and named as they are typed
// here.
import { join } from 'node:path';
import t from 'tap';
import { nextWords } from '../../src/cli/find-command.ts';
import { foldedLines, foldedUsage } from '../../src/cli/folded-text.ts';
import type { OperationOption } from '../../src/cli/management/operation-options.ts';
import { optionValue } from '../../src/cli/management/option-values.ts';
import { allCommands } from '../../src/cli/run.ts';
import { ADMIN_TOKEN, startTestGateway } from '../support/gateway.ts';
import { gw } from '../support/run-gw.ts';
import { tempDir } from '../support/temp-dir.ts';

const commands = await allCommands();
/** A word that no line can be narrower than. */
const LONG_WORD = /^ *\S+$/;

function tooWide(text: string, width: number): readonly string[] {
  return text.split('\n').filter((line) => line.length > width && !LONG_WORD.test(line));
}

t.test('no line of a help or a usage is wider than the terminal, and than 80 in a pipe', async (t) => {
  for (const columns of [undefined, 60]) {
    const place = columns === undefined ? {} : { columns };
    for (const { name } of commands) {
      const { code, out } = await gw([...name.split(' '), '--help'], place);
      t.equal(code, 0, name);
      t.strictSame(tooWide(out, columns ?? 80), [], name);
    }
    t.strictSame(tooWide((await gw(['help'], place)).out, columns ?? 80), []);
    const { err } = await gw(['policies', 'rules', 'put'], place);
    t.strictSame(tooWide(err.slice(err.indexOf('usage:')), columns ?? 80), []);
    t.match(err, /\nusage: gw policies rules put RULE_ID --rule TEXT/);
  }
});

t.test('every option of a usage stays with what it takes, and nothing is lost', (t) => {
  for (const { name, usage } of commands) {
    const shown = foldedUsage(`gw ${name} ${usage}`.trimEnd(), 80, '    ');
    // Choices are broken behind their bar; one that stands between blanks is a word.
    t.equal(shown.replaceAll(/(?<! )\|\n +/g, '|').replaceAll(/\n +/g, ' '), `gw ${name} ${usage}`.trimEnd());
    t.notMatch(shown, /--[a-z-]+\n +[A-Z]/, name);
  }
  t.equal(foldedUsage('gw x [--by aaaa|bbbb|cccc]', 16, '  '), 'gw x [--by\n  aaaa|bbbb|\n  cccc]');
  t.equal(foldedLines('  --a   one two three\n  b', 14), '  --a   one\n        two\n        three\n  b');
  const long = `  record.json     ${'word '.repeat(20)}end`;
  t.match(
    foldedLines(`${long}\n  records.ndjson  several`, 80),
    /end\n {2}records\.ndjson {2}several$/,
    'an entry is not joined to the one above it',
  );
  t.end();
});

t.test('the overview cuts no sentence, and names each group with what it has', async (t) => {
  const { out } = await gw(['help']);
  t.notMatch(out, '…');
  t.match(out, /^ {2}doctor {14}Finds what is wrong with a gateway, this shell and its\n {22}runtimes, and says what to do$/m);
  t.match(out, /^ {2}api-keys {12}create, list, revoke$/m);
  const named = out.replaceAll(/\s+/g, ' ');
  for (const word of nextWords('control-plane', commands)) t.match(named, word);
});

t.test('a group alone lists its commands, unless it has one that needs no more', async (t) => {
  const groups = new Set(
    commands.flatMap(({ name }) => {
      const words = name.split(' ');
      return words.slice(1).map((_, at) => words.slice(0, at + 1).join(' '));
    }),
  );
  for (const group of groups) {
    if (commands.some(({ name }) => name === group)) continue;
    const { code, out, err } = await gw(group.split(' '), { env: { GW_PORT: '1', CP_HTTP_PORT: '1', GW_CONFIG_DIR: 'none' } });
    t.notMatch(err, /is missing|usage:/, group);
    if (code === 0 && err === '') for (const word of nextWords(group, commands)) t.match(out, `gw ${group} ${word}`, group);
  }
  t.match((await gw(['control-plane', 'org'])).out, /^gw control-plane org list [\s\S]*^gw control-plane org put ORG /m);
});

t.test('commands are named as they are typed, once', async (t) => {
  const program = 'npx gw';
  t.match((await gw(['help'], { program })).out, /^usage: npx gw COMMAND [\s\S]*eval\n? *"\$\(npx gw env\)"/);
  t.match((await gw(['env', '--help'], { program })).out, /^usage: npx gw env /);
  t.match((await gw(['policies'], { program })).out, /^npx gw policies list /);
  const { err } = await gw(['prices', 'accept', 'x'], { program });
  t.match(err, /^gw prices accept: .*"npx gw prices status"/);
  t.match(err, /\nusage: npx gw prices accept /);
  t.notMatch((await gw(['help'], { program })).out, 'npx npx');
});

t.test('status names what starts and what is wrong: calls are taken, and warnings are told', async (t) => {
  const bundle = 'schema: gw.policy_bundle.v1\nbundle_id: none\nversion: "1"\n';
  const { port } = await startTestGateway(t, { bundle, env: { GW_HEALTHZ_STARTUP_GRACE: '1h' } });
  const env = { GW_PORT: String(port), GW_ADMIN_TOKEN: ADMIN_TOKEN, GW_CONFIG_DIR: 'none', GW_DATA_DIR: join(tempDir(t), 'data') };
  const { code, out } = await gw(['status'], { env });
  t.equal(code, 0);
  t.match(out, /^answers: +yes: started just now, takes calls, 1 warning, node /m);
  t.match(out, /^warning: +\S.*\n(?: {13}\S.*\n)*? {13}.*\(policy_denies_all\)$/m);
  t.strictSame(tooWide(out.match(/^warning:[\s\S]*?\n(?! )/m)?.[0] ?? 'none', 80), []);
  t.match(JSON.parse((await gw(['status', '--json'], { env })).out), { status: 'starting', warnings: [{ code: 'policy_denies_all' }] });
  const healthy = await startTestGateway(t);
  t.match((await gw(['status'], { env: { ...env, GW_PORT: String(healthy.port) } })).out, /^answers: +yes: healthy, node /m);
});

t.test('keys of callers have commands of their own, and who looks for them under `gw keys` is told', async (t) => {
  const { port, admin } = await startTestGateway(t);
  const env = { GW_PORT: String(port), GW_ADMIN_TOKEN: ADMIN_TOKEN };
  t.match(await gw(['keys', 'create', '--name', 'x', '--kind', 'api', '--scopes', 'read'], { env }), {
    code: 2,
    err: /--kind takes one of management, mcp, not "api"; .* are made by gw api-keys create\n/,
  });
  const made = await gw(['api-keys', 'create', '--org', 'acme', '--name', 'ci'], { env });
  t.match(made, { code: 0, out: /^gwk_\S+\n$/, err: /The key of the org acme/ });
  const [{ id }] = JSON.parse((await gw(['api-keys', 'list', '--org', 'acme', '--json'], { env })).out) as [{ id: string }];
  t.match((await gw(['api-keys', 'list'], { env })).out, new RegExp(`^ID[\\s\\S]*^${id} +acme +ci +gwk_`, 'm'));
  t.match(await gw(['api-keys', 'revoke', id.slice(-8)], { env }), { code: 0, out: `The API key ${id} of the org acme is revoked.\n` });
  t.match((await admin('GET', '/v1/admin/api-keys')).body, { api_keys: [{ id, revoked_at: String }] });
  t.match(await gw(['api-keys', 'revoke', 'none'], { env }), { code: 1, err: /There is no API key none/ });
  t.match(await gw(['api-keys', 'create', '--expires-at', 'soon'], { env }), {
    code: 2,
    err: /--expires-at takes a time to come, such as .*, not "soon"/,
  });
  t.match(await gw(['api-keys', 'create', '--expires-at', '2020-01-01'], { env }), { code: 1, err: /expires_at must be a time to come/ });
  for (const end of ['2099-06-30', '90d', 'friday'])
    t.match(await gw(['api-keys', 'create', '--org', 'acme', '--name', end, '--expires-at', end], { env }), { code: 0 });
  const { api_keys: keys } = (await admin('GET', '/v1/admin/api-keys')).body as { api_keys: { name: string; expires_at?: string }[] };
  t.equal(keys.find(({ name }) => name === '2099-06-30')?.expires_at, '2099-07-01T00:00:00.000Z', 'a day is meant to its end');
  const option: OperationOption = {
    name: 'until',
    path: ['until'],
    shape: 'one',
    value: { kind: 'time' },
    nullable: false,
    required: true,
    open: false,
    description: '',
  };
  const taken = optionValue(option, ['friday 18:00']);
  t.match(taken, /^20\d\d-\d\d-\d\dT18:00:00\.000Z$/);
  t.equal(new Date(String(taken)).getUTCDay(), 5);
});
