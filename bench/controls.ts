import { systemClock } from '../src/base/lib/clock.ts';
import { silentLogger } from '../src/base/lib/log.ts';
import { runDirect, runProxied } from '../src/pipeline/enter.ts';
import type { RunResult } from '../src/pipeline/line/run-call.ts';
import { ApiKeyService } from '../src/services/people/api-keys.ts';
import { Issuer, lasting, type Token } from '../test/decide/delegation/delegation-tokens.ts';
import { CHAT } from '../test/support/governed.ts';
import { arrivalOf, openPlay, type Play, type PlayedRequest } from '../test/support/played-line.ts';
import { median } from './measure.ts';
import { table } from './table.ts';

const BATCH = 250;
const WARM_UP = 40;
const BATCHES = 120;
/** No bucket is ever empty. */
const ENV = { GW_RATELIMIT_REFILL_RATE: '1000000000', GW_RATELIMIT_MAX_TOKENS: '1000000000' };
const BUDGET = '    - {id: cap, effect: {budget: {monthly_usd_max: "100000"}}}\n';

interface Control {
  readonly name: string;
  readonly door: 'redirect' | 'structured API';
  /** Rules behind the one that allows everything. */
  readonly rules?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** What is done before the first call; headers and members that its calls have. */
  prepare?(play: Play): Promise<{ readonly headers?: Readonly<Record<string, string>>; readonly envelope?: object }>;
}

const asking = (decision: string): string =>
  `  risk:\n    - {id: other, when: {field: caller_id, equals: somebody-else}, effect: {decision: ${decision}}}\n`;

/** The first of each door is what the others are compared with. */
function controls(): readonly Control[] {
  const issuer = new Issuer('bench');
  const env = { GW_DELEGATION_VERIFY_KEY: `bench=${issuer.publicKey}` };
  const token = (budget: Token): object => ({ delegation_token: issuer.text(lasting(budget)) });
  const prepared = (given: { readonly headers?: Readonly<Record<string, string>>; readonly envelope?: object }) => () =>
    Promise.resolve(given);
  return [
    { name: 'nothing of it', door: 'redirect', rules: asking('deny') },
    { name: 'a rule that asks for approvals of others', door: 'redirect', rules: asking('require_approval') },
    {
      name: 'a rule that puts others into quarantine, 500 of them held',
      door: 'redirect',
      rules: asking('quarantine'),
      prepare: holdOthers,
    },
    { name: 'an API key', door: 'redirect', rules: asking('deny'), prepare: makeKey },
    {
      name: 'risk',
      door: 'redirect',
      rules: '  risk:\n    - {id: odd, when: {field: context.risk.score, gte: 0.9}, effect: {decision: deny}}\n',
    },
    { name: 'a cap on the month of the project', door: 'redirect', rules: `  budgets:\n${BUDGET}` },
    { name: 'nothing of it', door: 'structured API', rules: asking('deny') },
    { name: 'a delegation token', door: 'structured API', rules: asking('deny'), env, prepare: prepared({ envelope: token({}) }) },
    {
      name: 'a delegation token with a budget',
      door: 'structured API',
      rules: asking('deny'),
      env,
      prepare: prepared({ envelope: token({ delegation_id: 'spends', budget: { usd_max: '100000' } }) }),
    },
  ];
}

function holdOthers({ pipeline }: Play): Promise<object> {
  for (let at = 0; at < 500; at += 1) {
    const caller = { orgId: 'default', workloadId: 'default', callerId: `held-${at}`, callerIp: '192.0.2.9' };
    pipeline.quarantines.hold(caller, { reason: 'bench', reason_codes: ['bench'] });
  }
  return Promise.resolve({});
}

async function makeKey({ pipeline: { store, events } }: Play): Promise<{ readonly headers: Readonly<Record<string, string>> }> {
  const keys = await ApiKeyService.open({ store, clock: systemClock, events });
  const { plain } = await keys.create({ orgId: 'default', name: 'bench', expiresAtMs: undefined });
  return { headers: { 'x-gw-api-key': plain } };
}

interface Running {
  readonly control: Control;
  readonly took: number[];
  call(): Promise<RunResult>;
}

/**
 * What each control costs a call when it is on: the line alone, without a socket, with the whole store behind it. All
 * run in one process and take turns in batches, so that what else the machine does falls on all alike.
 */
export async function measureControls(): Promise<string> {
  const closers: (() => unknown)[] = [];
  const t = { teardown: (close: () => unknown) => void closers.unshift(close) };
  const running: Running[] = [];
  for (const control of controls()) running.push(await start(t, control));
  for (let round = 0; round < WARM_UP + BATCHES; round += 1) {
    for (const { took, call } of running) {
      const before = process.cpuUsage();
      for (let at = 0; at < BATCH; at += 1) await call();
      const { user, system } = process.cpuUsage(before);
      if (round >= WARM_UP) took.push((user + system) / BATCH);
    }
  }
  for (const close of closers) await close();
  const rows = running.map((one) => rowOf(one, running));
  return table(['door', 'with', 'µs of CPU', 'more than without', 'from', 'to'], rows);
}

async function start(t: Parameters<typeof openPlay>[0], control: Control): Promise<Running> {
  const bundle = `schema: gw.policy_bundle.v1\nbundle_id: bench\nversion: "1"\ninline_rules:\n  targets:\n    - {id: all, effect: {decision: allow}}\n${control.rules ?? ''}`;
  const play = await openPlay(t, { bundle, env: { ...ENV, ...control.env }, log: silentLogger });
  const { headers = {}, envelope = {} } = (await control.prepare?.(play)) ?? {};
  const action = { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params: CHAT };
  const direct = {
    schema: 'gw.action_request.v2',
    org_id: 'default',
    workload_id: 'default',
    caller_id: 'me',
    credential_hint: 'k',
    action,
    ...envelope,
  };
  const request: PlayedRequest =
    control.door === 'redirect'
      ? {
          path: '/proxy/openai/v1/chat/completions',
          host: '127.0.0.1',
          headers: { authorization: 'Bearer k', 'x-gw-caller-id': 'me', ...headers },
          body: CHAT,
        }
      : { path: '/v1/actions:execute', host: '127.0.0.1', headers, body: direct };
  const run = control.door === 'redirect' ? runProxied : runDirect;
  const call = async (): Promise<RunResult> => {
    const result = await run(arrivalOf(play, request), play.pipeline);
    if (result.kind !== 'recorded' || result.refusal !== undefined) throw new Error(`${control.name}: ${JSON.stringify(result)}`);
    play.happened.length = 0;
    play.calls.length = 0;
    return result;
  };
  return { control, call, took: [] };
}

function rowOf({ control, took }: Running, running: readonly Running[]): string[] {
  const without = running.find((one) => one.control.door === control.door)?.took ?? [];
  const more = took.map((own, at) => own - (without[at] ?? Number.NaN)).sort((a, b) => a - b);
  const quartile = (part: number): string => (more[Math.floor(more.length * part)] ?? Number.NaN).toFixed(1);
  const isFirst = without === took;
  return [
    control.door,
    control.name,
    median(took).toFixed(1),
    ...(isFirst ? ['', '', ''] : [quartile(0.5), quartile(0.25), quartile(0.75)]),
  ];
}
