// What anybody shows to be let in is judged in one place, and what fails there is told and counted once.
import t from 'tap';
import { EventBus } from '../../src/base/events/bus.ts';
import type { GatewayError } from '../../src/base/lib/gateway-error.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import type { ArrivalHead } from '../../src/base/model/arrival.ts';
import type { Scope } from '../../src/base/model/principal.ts';
import { Authenticator } from '../../src/services/authenticator.ts';

/** A bus whose failures are written down. */
function noting(failures: string[]): EventBus {
  const events = new EventBus(silentLogger);
  events.subscribe(['authFailure'], ({ reason, surface }) => failures.push(`${surface} ${reason}`));
  return events;
}

const NOBODY = { hasToken: () => false, tokenMatches: () => false, holderOf: () => undefined };

function judge(scope: Scope, headers: Readonly<Record<string, string>>, metricsToken?: string) {
  const failures: string[] = [];
  const authenticator = new Authenticator({
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
    return { who: authenticator.principal(scope, head).kind, failures };
  } catch (error) {
    return { who: (error as GatewayError).message, failures };
  }
}

t.test('a scope is opened by the secret of a principal that has it, and by no other', (t) => {
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
    t.strictSame(judge(scope, headers, 'metrics-token'), { who, failures }, `${scope} ${JSON.stringify(headers)}`);
  t.strictSame(judge('metrics', {}), { who: 'anyone', failures: [] }, 'without GW_METRICS_TOKEN nothing is needed');
  t.end();
});

/** One workload with a token, `gwt_w`. */
const WORKLOADS = {
  hasToken: (id: string) => id === 'w',
  tokenMatches: (id: string, shown: string) => id === 'w' && shown === 'gwt_w',
  holderOf: (shown: string) => (shown === 'gwt_w' ? 'w' : undefined),
};

function callers(required: boolean) {
  const failures: string[] = [];
  const authenticator = new Authenticator({
    adminToken: 'admin-token',
    metricsToken: undefined,
    workloads: WORKLOADS,
    required,
    orgId: 'o',
    events: noting(failures),
    callerIp: () => '127.0.0.1',
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
    t.equal(callers(false).authenticator.caller(workload, shown), optional, `${workload} ${shown}`);
    t.equal(callers(true).authenticator.caller(workload, shown), required, `${workload} ${shown}, required`);
    t.equal(callers(true).authenticator.caller(workload, shown, false), optional, 'where another was shown before');
  }
  t.end();
});

t.test('a stranger of the structured API shows the token of some workload, no API key, or nothing where nothing is needed', (t) => {
  const heads = [
    [{ authorization: 'Bearer gwt_w' }, 'w', 'w', []],
    [{ authorization: 'Bearer sk-provider' }, undefined, /^A structured call .* not valid\.$/, ['api invalid_key']],
    [{}, undefined, /^A structured call needs a workload's token \(Authorization: Bearer\)\.$/, ['api missing_header']],
  ] as const;
  for (const [headers, optional, required, failures] of heads) {
    const head = { method: 'POST', rawTarget: '/x', headers } as unknown as ArrivalHead;
    t.equal(callers(false).authenticator.stranger(head), optional);
    const strict = callers(true);
    if (required instanceof RegExp) t.throws(() => strict.authenticator.stranger(head), { code: 'unauthorized', message: required });
    else t.equal(strict.authenticator.stranger(head), required);
    t.strictSame(strict.failures, failures);
  }
  const { authenticator, failures } = callers(false);
  const head = { method: 'POST', rawTarget: '/x', headers: { authorization: 'Bearer gwk_1' } } as unknown as ArrivalHead;
  t.throws(() => authenticator.stranger(head), { message: 'This API key is not known.' });
  t.strictSame(failures, ['api invalid_key'], 'also where nothing is needed');
  t.end();
});
