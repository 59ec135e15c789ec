// Who asks one of the gateway's own routes is judged in one place, and what fails there is told and counted once.
import t from 'tap';
import type { GatewayError } from '../../src/base/lib/gateway-error.ts';
import type { ArrivalHead } from '../../src/base/model/arrival.ts';
import type { Scope } from '../../src/base/model/principal.ts';
import { Principals } from '../../src/surfaces/http/principals.ts';

function judge(scope: Scope, headers: Readonly<Record<string, string>>, metricsToken?: string) {
  const failures: string[] = [];
  const principals = new Principals({
    adminToken: 'admin-token',
    metricsToken,
    orgId: 'o',
    events: { authFailure: ({ reason, surface }) => failures.push(`${surface} ${reason}`) },
    callerIp: () => '127.0.0.1',
  });
  const head = { method: 'GET', rawTarget: '/x', headers, rawHeaders: [], remoteAddress: '127.0.0.1' } as unknown as ArrivalHead;
  try {
    return { who: principals.judge(scope, head).kind, failures };
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
