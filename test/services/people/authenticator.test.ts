// What anybody shows to be let in is judged in one place, and what fails there is told and counted once.
import t from 'tap';
import { EventBus } from '../../../src/base/events/bus.ts';
import type { GatewayError } from '../../../src/base/lib/gateway-error.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import type { ArrivalHead } from '../../../src/base/model/arrival.ts';
import type { KeyScope } from '../../../src/base/model/keys.ts';
import type { Scope } from '../../../src/base/model/principal.ts';
import type { ApiKeyVerdict } from '../../../src/services/people/api-keys.ts';
import { Authenticator, type AuthenticatorOptions } from '../../../src/services/people/authenticator.ts';
import type { ManagementKeyVerdict } from '../../../src/services/people/management-keys.ts';
import { WrongKeys } from '../../../src/services/people/wrong-keys.ts';
import { fakeClock } from '../../support/fake-clock.ts';

/** A bus whose failures are written down. */
function noting(failures: string[]): EventBus {
  const events = new EventBus(silentLogger);
  events.subscribe(['authFailure'], ({ reason, surface }) => failures.push(`${surface} ${reason}`));
  return events;
}

const NO_KEYS = { judge: () => ({ result: 'invalid_key' as const }) };
const wrongKeys = new WrongKeys(fakeClock());
const NOBODY = { hasToken: () => false, tokenMatches: () => false, holderOf: () => undefined };

async function judge(scope: Scope, headers: Readonly<Record<string, string>>, metricsToken?: string) {
  const failures: string[] = [];
  const authenticator = new Authenticator({
    apiKeys: NO_KEYS,
    managementKeys: NO_KEYS,
    wrongKeys,
    managed: false,
    workloads: NOBODY,
    required: false,
    adminToken: 'admin-token',
    metricsToken,
    orgId: 'o',
    events: noting(failures),
    callerIp: () => '127.0.0.1',
  });
  const head = { method: 'GET', rawTarget: '/x', headers, rawHeaders: [], remoteAddress: '127.0.0.1' } as unknown as ArrivalHead;
  try {
    return { who: (await authenticator.principal(scope, head)).kind, failures };
  } catch (error) {
    return { who: (error as GatewayError).message, failures };
  }
}

t.test('a scope is opened by the secret of a principal that has it, and by no other', async (t) => {
  const cases = [
    ['none', {}, 'anyone', []],
    ['admin', { 'gw-admin-token': 'admin-token' }, 'admin', []],
    ['admin', { authorization: 'Bearer admin-token' }, 'admin', []],
    ['admin', { 'gw-admin-token': 'x', authorization: 'Bearer admin-token' }, 'This needs the admin token.', ['admin invalid_key']],
    ['admin', { authorization: 'Bearer metrics-token' }, 'This needs the admin token.', ['admin invalid_key']],
    ['admin', { authorization: 'Basic admin-token' }, 'This needs the admin token.', ['admin missing_header']],
    ['metrics', { authorization: 'bearer metrics-token' }, 'metrics', []],
    ['metrics', { authorization: 'Bearer admin-token' }, 'This needs the metrics token.', ['metrics invalid_key']],
    ['metrics', { 'gw-admin-token': 'admin-token' }, 'This needs the metrics token.', ['metrics missing_header']],
  ] as const;
  for (const [scope, headers, who, failures] of cases)
    t.strictSame(await judge(scope, headers, 'metrics-token'), { who, failures }, `${scope} ${JSON.stringify(headers)}`);
  t.strictSame(await judge('metrics', {}), { who: 'anyone', failures: [] }, 'without GW_METRICS_TOKEN nothing is needed');
});

/** One workload with a token, `gwt_w`. */
const WORKLOADS = {
  hasToken: (org: string, id: string) => org === 'o' && id === 'w',
  tokenMatches: (org: string, id: string, shown: string) => org === 'o' && id === 'w' && shown === 'gwt_w',
  holderOf: (shown: string) => (shown === 'gwt_w' ? { workload_id: 'w' } : undefined),
};

function callers(required: boolean, other: Partial<Pick<AuthenticatorOptions, 'apiKeys' | 'managed'>> = {}) {
  const failures: string[] = [];
  const authenticator = new Authenticator({
    adminToken: 'admin-token',
    metricsToken: undefined,
    apiKeys: NO_KEYS,
    managementKeys: NO_KEYS,
    wrongKeys,
    managed: false,
    workloads: WORKLOADS,
    required,
    orgId: 'o',
    events: noting(failures),
    callerIp: () => '127.0.0.1',
    ...other,
  });
  return { authenticator, failures };
}

t.test('a workload that has a token must show it; others only where every caller must', (t) => {
  const cases = [
    ['w', 'gwt_w', 'holder', 'holder'],
    ['w', 'gwt_x', 'refused', 'refused'],
    ['w', undefined, 'refused', 'refused'],
    ['other', 'gwt_w', 'open', 'refused'],
    ['other', undefined, 'open', 'refused'],
    [undefined, undefined, 'open', 'refused'],
  ] as const;
  for (const [workload, shown, optional, required] of cases) {
    t.equal(callers(false).authenticator.caller('o', workload, shown), optional, `${workload} ${shown}`);
    t.equal(callers(true).authenticator.caller('o', workload, shown), required, `${workload} ${shown}, required`);
    t.equal(callers(true).authenticator.caller('o', workload, shown, false), optional, 'where another was shown before');
    t.equal(callers(false).authenticator.caller('another', workload, shown), 'open', 'of another org with a workload of that id');
  }
  t.end();
});

t.test('a stranger of the structured API shows the token of some workload, an API key, or nothing where nothing is needed', async (t) => {
  const heads = [
    [{ authorization: 'Bearer gwt_w' }, 'w', 'w', []],
    [{ 'x-gw-workload-token': 'gwt_w' }, 'w', 'w', []],
    [{ authorization: 'Bearer sk-provider' }, undefined, /^A structured call .* not valid\.$/, ['api invalid_key']],
    [{}, undefined, /^A structured call needs a workload's token or an API key \(Authorization: Bearer\)\.$/, ['api missing_header']],
  ] as const;
  for (const [headers, optional, required, failures] of heads) {
    const tokenShown = JSON.stringify(headers).includes('gwt_');
    const head = { method: 'POST', rawTarget: '/x', headers, rawHeaders: [] } as unknown as ArrivalHead;
    t.strictSame(callers(false).authenticator.stranger(head), { workload: optional, apiKey: undefined, tokenShown });
    const strict = callers(true);
    if (required instanceof RegExp) t.throws(() => strict.authenticator.stranger(head), { code: 'unauthorized', message: required });
    else t.strictSame(strict.authenticator.stranger(head), { workload: required, apiKey: undefined, tokenShown });
    t.strictSame(strict.failures, failures);
  }
});

/** What is known of keys that begin so; one of them is not in memory. */
const KEYS = {
  judge(shown: string): ApiKeyVerdict | Promise<ApiKeyVerdict> {
    const key = { id: shown, org_id: 'o', name: '', key_prefix: '', created_at: '' };
    if (shown === 'gwk_stored') return Promise.resolve({ result: 'valid', key });
    const result = (['valid', 'revoked', 'expired'] as const).find((known) => shown === `gwk_${known}`);
    return result === undefined ? { result: 'invalid_key' } : { result, key };
  },
};

t.test('an API key lets in on the structured API where it is valid, and in no other case, whatever is needed', async (t) => {
  const cases = [
    ['gwk_valid', 'gwk_valid', []],
    ['gwk_stored', 'gwk_stored', []],
    ['gwk_other', 'This API key is not known.', ['api invalid_key']],
    ['gwk_revoked', 'This API key was revoked.', ['api revoked']],
    ['gwk_expired', 'This API key has expired.', ['api expired']],
  ] as const;
  const needs = [
    [false, false],
    [true, false],
    [false, true],
  ] as const;
  for (const [key, outcome, told] of cases) {
    for (const [required, managed] of needs) {
      for (const headers of [{ authorization: `Bearer ${key}` }, { 'x-gw-api-key': key, authorization: 'Bearer gwt_w' }]) {
        const { authenticator, failures } = callers(required, { apiKeys: KEYS, managed });
        const head = { method: 'POST', rawTarget: '/x', headers, rawHeaders: [] } as unknown as ArrivalHead;
        const shown = await asked(() => authenticator.stranger(head));
        t.equal(shown instanceof Error ? shown.message : shown.apiKey?.id, outcome);
        t.strictSame(failures, told);
      }
    }
  }
  const { authenticator, failures } = callers(false, { managed: true });
  const head = { method: 'POST', rawTarget: '/x', headers: { authorization: 'Bearer gwt_w' }, rawHeaders: [] } as unknown as ArrivalHead;
  t.match(await asked(() => authenticator.stranger(head)), { message: /needs an API key/ }, 'a token is none');
  t.strictSame(failures, ['api invalid_key']);
});

async function asked<T>(ask: () => T | Promise<T>): Promise<T | Error> {
  try {
    return await ask();
  } catch (error) {
    return error as Error;
  }
}

const KEPT = { id: 'k', org_id: 'acme', name: 'Ops', key_prefix: 'mgk_', created_at: '2026-11-21T12:00:00.000Z' } as const;

/** Keys of the management API and of MCP, as their service judges them. */
function managers(verdicts: Readonly<Record<string, ManagementKeyVerdict>>, clock = fakeClock()) {
  const failures: string[] = [];
  const authenticator = new Authenticator({
    adminToken: 'admin-token',
    metricsToken: undefined,
    apiKeys: NO_KEYS,
    managementKeys: {
      judge: (kind, shown) => (shown.startsWith(kind === 'mcp' ? 'mcpk_' : 'mgk_') && verdicts[shown]) || { result: 'invalid_key' },
    },
    wrongKeys: new WrongKeys(clock),
    managed: false,
    workloads: NOBODY,
    required: false,
    orgId: 'o',
    events: noting(failures),
    callerIp: () => '127.0.0.1',
  });
  const ask = async (scope: Scope, shown?: string) => {
    const headers = shown === undefined ? {} : { authorization: `Bearer ${shown}` };
    const head = { method: 'GET', rawTarget: '/x', headers, rawHeaders: [], remoteAddress: '127.0.0.1' } as unknown as ArrivalHead;
    try {
      const { kind, id, orgId, scopes } = await authenticator.principal(scope, head);
      return `${kind} ${id} ${orgId} ${scopes.join()}`;
    } catch (error) {
      return (error as GatewayError).code;
    }
  };
  return { ask, failures, clock };
}

t.test('a management key opens its own surface, in its org, as far as its scopes go; write implies read', async (t) => {
  const key = (kind: 'management' | 'mcp', scopes: readonly KeyScope[]): ManagementKeyVerdict => ({
    result: 'valid',
    key: { ...KEPT, kind, scopes },
  });
  const { ask, failures } = managers({
    mgk_r: key('management', ['read']),
    mgk_rw: key('management', ['read', 'write']),
    mgk_w: key('management', ['write']),
    mgk_a: key('management', ['approve']),
    mgk_ra: key('management', ['read', 'approve']),
    mcpk_r: key('mcp', ['read']),
    mcpk_a: key('mcp', ['approve']),
    mgk_gone: { result: 'revoked', key: { ...KEPT, kind: 'management', scopes: ['read'] } },
    mgk_old: { result: 'expired', key: { ...KEPT, kind: 'management', scopes: ['read'] } },
  });
  const cases = [
    ['read', 'mgk_r', 'management_key k acme none,read,review'],
    ['review', 'mgk_r', 'management_key k acme none,read,review'],
    ['decide', 'mgk_r', 'insufficient_scope'],
    ['decide', 'mgk_a', 'management_key k acme none,review,decide'],
    ['review', 'mgk_a', 'management_key k acme none,review,decide'],
    ['read', 'mgk_a', 'insufficient_scope'],
    ['write', 'mgk_a', 'insufficient_scope'],
    ['write', 'mgk_ra', 'insufficient_scope'],
    ['decide', 'mgk_ra', 'management_key k acme none,read,review,decide'],
    ['mcp', 'mcpk_a', 'mcp_key k acme none,mcp,review,decide'],
    ['write', 'mgk_r', 'insufficient_scope'],
    ['read', 'mgk_w', 'management_key k acme none,read,review,write,decide'],
    ['write', 'mgk_rw', 'management_key k acme none,read,review,write,decide'],
    ['mcp', 'mcpk_r', 'mcp_key k acme none,mcp,read,review'],
    ['mcp', 'mgk_rw', 'unauthorized'],
    ['read', 'mcpk_r', 'unauthorized'],
    ['read', 'mgk_gone', 'unauthorized'],
    ['write', 'mgk_old', 'unauthorized'],
    ['read', 'admin-token', 'unauthorized'],
    ['read', undefined, 'unauthorized'],
  ] as const;
  for (const [scope, shown, who] of cases) t.equal(await ask(scope, shown), who, `${scope} ${shown}`);
  t.strictSame(failures, [
    'mcp invalid_key',
    'management invalid_key',
    'management revoked',
    'management expired',
    'management invalid_key',
    'management missing_header',
  ]);
});

t.test('whoever tries keys waits longer for each answer, and a right key is never held up', async (t) => {
  const { ask, clock } = managers({ mgk_r: { result: 'valid', key: { ...KEPT, kind: 'management', scopes: ['read'] } } });
  for (let tries = 0; tries < 5; tries += 1) t.equal(await ask('read', 'mgk_x'), 'unauthorized', 'the first ones are answered at once');
  let answered = 0;
  const slow = Array.from({ length: 8 }, async () => {
    const code = await ask('read', 'mgk_x');
    answered += 1;
    return code;
  });
  t.equal(await ask('read', 'mgk_x'), 'too_many_attempts', 'no more than eight wait at a time');
  t.equal(await ask('read', 'mgk_r'), 'management_key k acme none,read,review');
  t.equal(answered, 0);
  clock.advance(5_000);
  t.strictSame([...new Set(await Promise.all(slow))], ['unauthorized']);
  clock.advance(61_000);
  t.equal(await ask('read', 'mgk_x'), 'unauthorized', 'and is forgotten after a minute');
});
