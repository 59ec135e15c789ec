// How bad input is told: all mistakes at once, in the words and the order of the schemas.
import t from 'tap';
import { GatewayError } from '../../src/base/lib/gateway-error.ts';
import { OPERATIONS } from '../../src/operations/operation-table.ts';
import type { OperationServices } from '../../src/operations/services.ts';
import { fakeClock } from '../support/fake-clock.ts';

const clock = fakeClock();
const audit = { commitFor: () => () => Promise.resolve() };
const services = {
  budgets: { clock, defaultOrg: 'default', canonicalProvider: (text: string) => (text === 'openai' ? 'openai' : undefined) },
  credentials: {
    keyedConnector: (text: string) => (text === 'openai' ? 'openai' : undefined),
    coversHost: (_connector: string, host: string) => host === 'api.openai.com',
  },
  reports: { clock, defaultOrg: 'default' },
  audit,
} as unknown as OperationServices;

/** Paths of the mistakes of what an operation refuses. */
async function mistakesOf(id: string, body: unknown, query = ''): Promise<readonly string[]> {
  const operation = OPERATIONS.find((row) => row.id === id);
  if (operation === undefined) throw new Error(`there is no ${id}`);
  const principal = { kind: 'admin', id: 'admin', scopes: ['admin'] } as const;
  const asked = {
    principal,
    params: { id: 'x' },
    query: new URLSearchParams(query),
    headers: {},
    from: '127.0.0.1',
    json: () => Promise.resolve(body),
  };
  try {
    await operation.bind(services)(asked);
  } catch (error) {
    if (error instanceof GatewayError) return error.details?.map(({ path }) => path) ?? [error.code];
    throw error;
  }
  throw new Error('it was taken');
}

t.test('a rule about several members is asked although one of them is wrong', async (t) => {
  const cases: readonly (readonly [id: string, body: unknown, mistakes: readonly string[]])[] = [
    [
      'budgets.create',
      { scope: 'provider', limit_usd: '1', scope_id: 'nobody', warning_threshold_pct: 0.5 },
      ['warning_threshold_pct', 'scope_id'],
    ],
    [
      'budgets.create',
      { scope: 'org', limit_usd: '1', critical_threshold_pct: 50, actions: ['mail'] },
      ['critical_threshold_pct', 'actions'],
    ],
    ['budgets.create', { more: 1, scope: 'workload', limit_usd: 5 }, ['more', 'scope_id', 'limit_usd']],
    [
      'credentials.put',
      { mode: 'own', connector_id: 'nobody', target_hosts: ['evil.example'] },
      ['mode', 'connector_id', 'target_hosts[0]', 'credential_id'],
    ],
    ['credentials.put', { mode: 'alias', connector_id: 'a b', credential_id: 'c', secret_ref: ' x' }, ['connector_id', 'secret_ref']],
    [
      'workloads.put',
      { workload_id: '', default_attribution: { labels: { a: 1, b: 'x' }, more: 1 } },
      ['workload_id', 'default_attribution.more', 'default_attribution.labels.a'],
    ],
    ['workloads.put', [], ['']],
    ['policies.put', { bundle_yaml: 'x'.repeat(524_289) }, ['body_too_large']],
    ['policies.put', { bundle_yaml: 'x'.repeat(524_289), more: 1 }, ['more']],
  ];
  for (const [id, body, mistakes] of cases) t.strictSame(await mistakesOf(id, body), mistakes, JSON.stringify(body).slice(0, 100));
});

t.test('a member that is called as no member can be is a mistake, and a label that is called so is kept', async (t) => {
  const strange = JSON.parse('{"workload_id":"w","__proto__":1}') as unknown;
  t.strictSame(await mistakesOf('workloads.put', strange), ['__proto__']);
  const stored: unknown[] = [];
  const put = OPERATIONS.find(({ id }) => id === 'workloads.put');
  const keeping = {
    audit,
    workloads: { changeOrMove: (_name: unknown, next: (current: undefined) => unknown) => Promise.resolve(stored.push(next(undefined))) },
  } as unknown as OperationServices;
  const text = '{"workload_id":"w","default_attribution":{"labels":{"__proto__":"x","b":"y"}}}';
  const principal = { kind: 'admin', id: 'admin', scopes: ['admin'] } as const;
  await put?.bind(keeping)({
    principal,
    params: {},
    query: new URLSearchParams(),
    headers: {},
    from: '127.0.0.1',
    json: () => Promise.resolve(JSON.parse(text)),
  });
  t.equal(JSON.stringify(stored[0]), text);
});

t.test('of a query every mistake is told, what is there twice with those of its first value', async (t) => {
  t.strictSame(await mistakesOf('dashboard.summary', undefined, 'from=x&z=1&from=y&org_id='), ['from', 'z', 'org_id', 'from']);
  t.strictSame(await mistakesOf('dashboard.summary', undefined, 'from=2030-01-01&to=x'), ['to', 'from']);
});

t.test('fifty thousand mistakes are told in a fraction of the time in which a client would give up', async (t) => {
  const labels = Object.fromEntries(Array.from({ length: 50_000 }, (_, at) => [`l${at}`, at]));
  const body = { workload_id: 'w', default_attribution: { labels }, ...labels };
  const before = process.cpuUsage();
  const told = await mistakesOf('workloads.put', body);
  const { user } = process.cpuUsage(before);
  t.equal(told.length, 50);
  t.ok(user < 4_000_000, `${user} microseconds of processor time`);
});
