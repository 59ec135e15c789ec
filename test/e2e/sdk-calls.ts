import { join } from 'node:path';
import type { Test } from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { MOCK_TEXT, MOCK_USAGE } from '../support/aimock.ts';
import { atMost, run } from '../support/child.ts';
import type { GatewayProcess } from '../support/gateway-process.ts';

export const SDKS = ['openai', 'azure', 'anthropic', 'gemini', 'mistral', 'cohere'] as const;
export type Sdk = (typeof SDKS)[number];

const CLIENT = join(packageRoot(), 'test', 'e2e', 'clients', 'sdk.mjs');
const FORBIDDEN_MODEL = 'forbidden-model';
const FORBIDDEN_REASON = 'This model is not cleared for production data.';

/** Any registered provider, but one model for nobody. */
export const BUNDLE = `schema: gw.policy_bundle.v1
bundle_id: e2e
version: "1"
inline_rules:
  connectors:
    - id: allow.providers
      when: {field: context.connector.id, in: [openai, azure_openai, anthropic, gemini, mistral, cohere, groq]}
      effect: {decision: allow}
  risk:
    - id: deny.model
      when: {field: context.action.params.model, equals: ${FORBIDDEN_MODEL}}
      effect: {decision: deny, reason: ${FORBIDDEN_REASON}, reason_codes: [model_not_cleared]}
`;

/** The usual keys, each where its SDK looks for it. */
const KEYS = {
  OPENAI_API_KEY: 'sk-test',
  AZURE_OPENAI_API_KEY: 'azure-test',
  OPENAI_API_VERSION: '2024-10-21',
  ANTHROPIC_API_KEY: 'sk-ant-test',
  GEMINI_API_KEY: 'gemini-test',
  MISTRAL_API_KEY: 'mistral-test',
  CO_API_KEY: 'cohere-test',
};

/** A key of the gateway in every place where an SDK looks for the provider's. */
export function keysFrom(key: string): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.keys(KEYS).flatMap((name) => (name.endsWith('_KEY') ? [[name, key]] : [])));
}

/** Gives the gateway a key of each provider, and makes an API key for the SDKs. @returns it, with its id */
export async function governKeys(gateway: GatewayProcess): Promise<{ readonly id: string; readonly key: string }> {
  for (const sdk of SDKS) {
    const credential = { credential_id: `c-${sdk}`, connector_id: providerOf(sdk), mode: 'alias', secret_ref: `stored-${sdk}` };
    const { status, text } = await gateway.admin('PUT', '/v1/admin/credentials', credential);
    if (status !== 200) throw new Error(text);
  }
  return (await gateway.admin('POST', '/v1/admin/api-keys', { name: 'sdks' })).body as { id: string; key: string };
}

export interface SdkCall {
  readonly call: string;
  readonly text?: string;
  readonly error?: { readonly type: string; readonly message: string; readonly status?: number; readonly cause: string };
  /** Requests that the SDK made for this call. */
  readonly sent: number;
  readonly answers: readonly { readonly status: number; readonly recordId?: string }[];
}

/** Three at a time: more only wait for each other on a small machine. */
const limited = atMost(3);

/** One SDK in a process of its own. */
export function callSdk(
  t: Test,
  node: string,
  sdk: Sdk,
  calls: readonly string[],
  env: Readonly<Record<string, string>>,
  nodeOptions: readonly string[] = [],
): Promise<readonly SdkCall[]> {
  return limited(async () => {
    const { stdout, stderr, code } = await run(t, node, [...nodeOptions, CLIENT, sdk, ...calls], { env: { ...KEYS, ...env } });
    const done = stdout.split('\n').flatMap((line) => (line.startsWith('{') ? [JSON.parse(line) as SdkCall] : []));
    if (code === 0 && done.length === calls.length) return done;
    return [{ call: 'the program itself', sent: 0, answers: [], error: { type: String(code), message: `${stdout}${stderr}`, cause: '' } }];
  });
}

export const MODELS: Readonly<Record<Sdk, string>> = {
  openai: 'gpt-4o-mini',
  azure: 'gpt-4o-mini',
  anthropic: 'claude-3-5-haiku-20241022',
  gemini: 'gemini-2.5-flash',
  mistral: 'mistral-small-latest',
  cohere: 'command-r7b-12-2024',
};

/** The calls that each SDK makes through each door; those for the forbidden model must be refused. */
export const CALLS: Readonly<Record<Sdk, readonly string[]>> = {
  openai: ['plain', 'stream', denied('plain'), denied('stream'), 'responses', 'responses-stream'],
  azure: ['plain', 'stream', denied('plain'), denied('stream')],
  anthropic: ['plain', 'stream', denied('plain'), denied('stream'), 'count-tokens'],
  gemini: ['plain', 'stream', denied('plain'), denied('stream'), 'plain-v1beta', 'stream-v1beta'],
  mistral: ['plain', 'stream', denied('plain'), denied('stream')],
  cohere: ['plain', 'stream', denied('plain'), denied('stream')],
};

function denied(kind: 'plain' | 'stream'): string {
  return `${kind}:${FORBIDDEN_MODEL}`;
}

/** What the stub, ours, says in the forms that the mock does not know. */
const STUB_TEXT: Readonly<Record<string, string>> = {
  'gemini plain': 'Hello from the stub.',
  'gemini stream': 'Hello there.',
  'mistral stream': 'Hello there.',
  'anthropic count-tokens': '11',
};

function providerOf(sdk: Sdk): string {
  return sdk === 'azure' ? 'azure_openai' : sdk;
}

/** Checks what a call gave its user, and its record. */
export async function checkCall(
  t: Test,
  gateway: GatewayProcess,
  sdk: Sdk,
  seen: SdkCall,
  expected: Readonly<Record<string, unknown>>,
): Promise<void> {
  const { call } = seen;
  if (call.endsWith(`:${FORBIDDEN_MODEL}`)) return checkRefusal(t, gateway, sdk, seen, expected);
  t.equal(seen.error, undefined, `${call} gives no error`);
  t.equal(seen.text, STUB_TEXT[`${sdk} ${call}`] ?? MOCK_TEXT, `${call} gives the answer`);
  t.match(seen.answers, [{ status: 200, recordId: String }]);
  const record = await gateway.record(seen.answers[0]?.recordId);
  const isStream = call.includes('stream');
  t.match(
    record,
    {
      decision: 'allow',
      provider: providerOf(sdk),
      connector_id: providerOf(sdk),
      org_id: 'default',
      stream: isStream,
      ...(isStream ? { stream_outcome: 'complete' } : {}),
      status_code: 200,
      // Counting is no inference: governed by its head, the body is not read.
      ...(call === 'count-tokens'
        ? { action_type: 'http.request' }
        : {
            action_type: 'ai.infer',
            model: MODELS[sdk],
            metering: { tokens_in: MOCK_USAGE.tokensIn, tokens_out: MOCK_USAGE.tokensOut, usage_reported: true },
          }),
      ...expected,
    },
    `${call} has its record`,
  );
}

async function checkRefusal(
  t: Test,
  gateway: GatewayProcess,
  sdk: Sdk,
  seen: SdkCall,
  expected: Readonly<Record<string, unknown>>,
): Promise<void> {
  const { call } = seen;
  t.equal(seen.text, undefined);
  t.match(
    seen.error?.message,
    FORBIDDEN_REASON,
    `${call} throws an error that says why: ${seen.error?.type ?? ''}: ${seen.error?.message ?? ''}`,
  );
  t.equal(seen.error?.status, 403, `${call} throws an error with the status`);
  t.equal(seen.sent, 1, `${call} is not retried`);
  t.match(
    await gateway.record(seen.answers[0]?.recordId),
    {
      decision: 'deny',
      reason: FORBIDDEN_REASON,
      reason_codes: ['model_not_cleared'],
      provider: providerOf(sdk),
      model: FORBIDDEN_MODEL,
      status_code: 403,
      ...expected,
    },
    `${call} has its record`,
  );
}

/** No request for the forbidden model may ever leave the gateway. */
export function mentionsForbiddenModel(request: { readonly url: string; readonly body: Buffer }): boolean {
  return request.url.includes(FORBIDDEN_MODEL) || request.body.includes(FORBIDDEN_MODEL);
}
