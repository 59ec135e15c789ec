import type { Test } from 'tap';
import { picoFromUsd } from '../../src/base/lib/money.ts';
import { type AimockUpstream, MOCK_TEXT, startAimock } from './aimock.ts';
import { startTestGateway, type TestGateway } from './gateway.ts';
import { ALLOW_ALL } from './governed.ts';
import { type AnswerWatch, SDK_DOORS, type Sdk, type SdkDoor, type SdkOptions, sdkClients, useProxy, watchAnswers } from './sdk-clients.ts';
import { towardsMock } from './upstreams.ts';

/** The call that a program with fetch makes at the structured API; `params` are what the SDKs send. */
export const CHAT = { model: 'gpt-4o-2024-05-13', messages: [{ role: 'user', content: 'hello' }] };
/** Numbers that no estimate would hit. */
export const USAGE = { in: 1237, out: 89 };

export interface Place {
  readonly gw: TestGateway;
  readonly mock: AimockUpstream;
  readonly answers: AnswerWatch;
}

/** A gateway before the mock, with this process set up as HTTPS_PROXY would. */
export async function startSdkPlace(
  t: Test,
  options: { bundle?: string; env?: Record<string, string>; apiKey?: string; latencyMs?: number } = {},
): Promise<Place> {
  const { apiKey, latencyMs, bundle = ALLOW_ALL, env = {} } = options;
  const mock = await startAimock({
    hosts: ['openrouter.ai'],
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(latencyMs === undefined ? {} : { latencyMs }),
  });
  t.teardown(() => mock.close());
  mock.mock.prependFixture({
    match: { userMessage: /hello/ },
    response: { content: MOCK_TEXT, usage: { input_tokens: USAGE.in, output_tokens: USAGE.out } },
    chunkSize: 5,
  });
  const gw = await startTestGateway(t, { bundle, env: { ...towardsMock(t, mock), ...env } });
  useProxy(t, gw);
  return { gw, mock, answers: watchAnswers(t) };
}

/** Every SDK by every door. */
export async function each(
  t: Test,
  { gw }: Place,
  options: SdkOptions,
  check: (t: Test, sdk: Sdk, door: SdkDoor, name: string) => Promise<void>,
): Promise<void> {
  for (const door of SDK_DOORS) {
    for (const [name, sdk] of Object.entries(sdkClients(gw, door, options))) {
      await t.test(`${name} by ${door}`, (t) => check(t, sdk, door, name));
    }
  }
}

export interface Structured {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Record<string, unknown>;
}

export async function execute({ gw }: Place, extra: object = {}, action: object = {}): Promise<Structured> {
  const response = await fetch(`${gw.url}/v1/actions:execute`, { method: 'POST', body: JSON.stringify(structured(extra, action)) });
  return { status: response.status, headers: response.headers, body: (await response.json()) as Record<string, unknown> };
}

export function structured(extra: object = {}, action: object = {}): object {
  const whole = { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params: CHAT, ...action };
  const who = { schema: 'gw.action_request.v2', org_id: 'default', workload_id: 'default', credential_hint: 'key-of-the-program' };
  return { ...who, action: whole, ...extra };
}

/** The record of the one answer that came since the last look. */
export async function recordOf(t: Test, { gw, answers }: Place): Promise<Record<string, unknown>> {
  const seen = answers.take();
  t.equal(seen.length, 1, 'one answer');
  return gw.record(seen[0]?.recordId ?? '');
}

/**
 * What is charged for one call at the rates that its record names, a second time and by hand: (tokens × rate) /
 * 1,000,000.
 */
export function costByHand(metering: Record<string, unknown>): bigint {
  const rate = (name: string) => picoFromUsd(String(metering[name]));
  const tokens = (name: string) => BigInt(Number(metering[name]));
  return (tokens('tokens_in') * rate('rate_in') + tokens('tokens_out') * rate('rate_out')) / 1_000_000n;
}
