// `gw stop`, `gw stops` and `gw resume`, with the admin token and with a management key, at a real gateway.
import t from 'tap';
import { ADMIN_TOKEN } from '../support/gateway.ts';
import { startManaged } from '../support/managed.ts';
import { gw } from '../support/run-gw.ts';
import type { HasTeardown } from '../support/temp-dir.ts';

async function start(t: HasTeardown) {
  const { gw: gateway, keyOf } = await startManaged(t);
  const env = { GW_ADMIN_TOKEN: ADMIN_TOKEN, GW_PORT: String(gateway.port), GW_CONFIG_DIR: 'none' };
  const run = (line: readonly string[], more: Parameters<typeof gw>[1] = {}) => gw(line, { env, ...more });
  const standing = async () => ((await gateway.admin('GET', '/v1/admin/stops')).body as { stops: Record<string, unknown>[] }).stops;
  return { run, standing, keyOf, gateway };
}

const WHY = ['--reason', 'a key has leaked'];

t.test('calls are stopped when the word is typed, or with --yes, and go on by id or scope', async (t) => {
  const { run, standing } = await start(t);
  const asked = await run(['stop', '--provider', 'OpenAI', '--model', 'gpt-4o', ...WHY], { columns: 80, lines: ['yes'] });
  t.match(asked, { code: 1, out: '', err: /This refuses provider OpenAI, model gpt-4o, .*Type "stop" to do it: Nothing was stopped\.\n$/ });
  t.match(await run(['stop', '--all', ...WHY]), { code: 1, err: /--yes says that it is meant/ }, 'nobody can be asked');
  t.same(await standing(), []);
  const typed = await run(['stop', '--provider', 'OpenAI', ...WHY, '--until', '2099-01-01T00:00:00Z'], { columns: 80, lines: ['stop'] });
  t.match(typed, {
    code: 0,
    out: /^Stopped: provider openai \(a key has leaked\) until 2099-01-01T00:00:00Z\.\nThey go on with: gw resume \S+\n$/,
  });
  t.match(await run(['stop', '--all', ...WHY, '--until', '2h', '--yes', '--json']), { code: 0, out: /"scope": ?\{\}/ });
  t.match(await standing(), [
    { scope: {}, until: String },
    { scope: { provider: 'openai' }, created_by: 'admin' },
  ]);
  t.match(await run(['stops'], { columns: 120 }), {
    code: 0,
    out: /SINCE +CALLS +REASON[\s\S]* all calls +a key has leaked[\s\S]* provider openai +/,
  });
  t.match(await run(['status']), { out: /calls are refused/ });
  const id = /gw resume (\S+)/.exec(typed.out)?.[1] ?? '';
  t.match(await run(['resume', id.slice(-8)]), { code: 0, out: 'Ended: provider openai (a key has leaked)' });
  t.match(await run(['resume', id]), { code: 1, err: /There is no stop/ });
  t.match(await run(['resume', '--all']), { code: 0, out: /^Ended: all calls/ });
  t.same(await standing(), []);
  t.match(await run(['stops', '--json']), { code: 0, out: '[]' });
});

t.test('with a management key it is about its org', async (t) => {
  const { run, keyOf, standing } = await start(t);
  const key = ['--key', (await keyOf('acme')).key];
  t.match(await run(['stop', '--all', ...WHY, '--yes', ...key]), { code: 0, out: /^Stopped: org acme/ });
  t.match(await run(['stop', '--org', 'other', ...WHY, '--yes', ...key]), { code: 2, err: /--org is for the admin token/ });
  t.match(await run(['stops', ...key], { columns: 120 }), { code: 0, out: /acme/ });
  await run(['stop', '--org', 'acme', '--model', 'gpt-4o', ...WHY, '--yes']);
  t.match(await run(['resume', '--model', 'gpt-4o', ...key]), { code: 1, err: /The operator of the gateway has made the stop/ });
  t.match(await run(['resume', '--all', ...key]), { code: 0, out: /^Ended: org acme/ });
  t.match(await standing(), [{ scope: { org: 'acme', model: 'gpt-4o' } }]);
});

t.test('what makes no stop is told in one line', async (t) => {
  const { run } = await start(t);
  for (const [line, err] of [
    [['stop'], /name which calls: --all, .*Ctrl-C/],
    [['stop', '--all'], /--reason is missing/],
    [['stop', '--all', '--org', 'acme', ...WHY], /--all names all calls: leave out --org/],
    [['stop', '--all', ...WHY, '--until', 'never', '--yes'], /--until takes a time to come/],
    [['resume'], /give the ID of a stop/],
    [['resume', 'abc', '--all'], /not both/],
  ] as const)
    t.match(await run(line), { code: 2, err });
  t.match(await run(['stop', '--provider', 'nobody', ...WHY, '--yes']), { code: 1, err: /scope\.provider is no provider/ });
});
