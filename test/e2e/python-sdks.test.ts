import { join } from 'node:path';
import t from 'tap';
import { picoFromUsd, usdFromPico } from '../../src/base/lib/money.ts';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { MOCK_TEXT, MOCK_USAGE, startAimock } from '../support/aimock.ts';
import { run } from '../support/child.ts';
import { startGatewayProcess } from '../support/gateway-process.ts';
import { bundleOf } from '../support/governed.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';
import { towardsMock } from '../support/upstreams.ts';

/*
 * The official Python SDKs, as they come, by proxy and by base URL: what they are told, what is recorded, and what a
 * refusal looks like to a program.
 */

const CLIENT = join(packageRoot(), 'test', 'e2e', 'clients', 'python-sdks.py');
const BUNDLE = bundleOf(`  budgets:
    - {id: all, effect: {decision: allow}}
    - {id: capped, when: {field: attribution.project_id, equals: capped}, effect: {budget: {usd_max: "0.000000001"}}}
`);
const KEYS = { OPENAI_API_KEY: 'sk-test', ANTHROPIC_API_KEY: 'sk-ant-test', GEMINI_API_KEY: 'gemini-test' };

interface PythonCall {
  readonly sdk: string;
  readonly call: string;
  readonly text?: string;
  readonly error?: { readonly type: string; readonly message: string; readonly status: number | null };
  readonly answers: readonly { readonly status: number; readonly record_id: string | null }[];
}

/** What a program catches when a call is refused. */
const REFUSALS: Readonly<Record<string, string>> = {
  openai: 'PermissionDeniedError',
  anthropic: 'PermissionDeniedError',
  gemini: 'ClientError',
};
const CALLS = 10;

t.test('official Python SDKs', { skip: skipWithout(['python-sdks']) }, async (t) => {
  // Time between two pieces of a stream, so that one can be left.
  const mock = await startAimock({ latencyMs: 20 });
  t.teardown(() => mock.close());
  const gateway = await startGatewayProcess(t, { bundle: BUNDLE, env: { ...towardsMock(t, mock), GW_METER_INJECT_USAGE: 'true' } });
  const doors = {
    connect_proxy: { HTTPS_PROXY: gateway.url, SSL_CERT_FILE: gateway.bundleFile },
    sdk_redirect: {
      OPENAI_BASE_URL: `${gateway.url}/proxy/openai/v1`,
      ANTHROPIC_BASE_URL: `${gateway.url}/proxy/anthropic`,
      GOOGLE_GEMINI_BASE_URL: `${gateway.url}/proxy/gemini`,
    },
  };
  const python = requirePeer('python-sdks');
  const calls = async (env: Readonly<Record<string, string>>): Promise<readonly PythonCall[]> => {
    const { stdout, stderr } = await run(t, python, [CLIENT], { env: { ...KEYS, ...env } });
    const seen = stdout.split('\n').flatMap((line) => (line.startsWith('{') ? [JSON.parse(line) as PythonCall] : []));
    t.equal(seen.length, CALLS, stderr.slice(-1000));
    return seen;
  };
  let spent = 0n;
  for (const [door, env] of Object.entries(doors)) {
    await t.test(`${door}: answers and records`, async (t) => {
      for (const { sdk, call, text, error, answers } of await calls(env)) {
        const left = call === 'stream left';
        t.equal(error, undefined, `${sdk} ${call} gives no error`);
        t.ok(left ? MOCK_TEXT.startsWith(text ?? '?') : text === MOCK_TEXT, `${sdk} ${call} gives the answer`);
        t.match(answers, [{ status: 200 }]);
        const record = await gateway.record(answers[0]?.record_id ?? undefined);
        // Of a stream that was left what was seen counts, since nobody reported it all.
        const tokens = left ? { usage_reported: false } : { tokens_in: MOCK_USAGE.tokensIn, usage_reported: true };
        t.match(record, { decision: 'allow', provider: sdk, connection_type: door, metering: tokens }, `${sdk} ${call} has its record`);
        if (call.startsWith('stream')) t.equal(record['stream_outcome'], left ? 'aborted' : 'complete');
        spent += picoFromUsd(String((record['metering'] as Record<string, unknown>)['cost_usd']));
      }
    });
    await t.test(`${door}: a cap that is reached`, async (t) => {
      const before = mock.journal().length;
      for (const { sdk, call, error, answers } of await calls({ ...env, PROJECT: 'capped' })) {
        t.match(error, { type: REFUSALS[sdk], status: 403, message: /budget_usd_max_exceeded/ }, `${sdk} ${call}: ${error?.message}`);
        t.match(answers, [{ status: 403 }]);
        t.equal(answers.length, 1, 'it is not tried again');
      }
      t.equal(mock.journal().length, before, 'nothing was forwarded');
    });
  }
  const { total_cost_usd: total } = (await gateway.admin('GET', '/v1/dashboard/summary')).body as Record<string, unknown>;
  t.equal(total, usdFromPico(spent), 'the dashboard says what the records cost together');
});
