// A request on its way through the line, played without a socket: what is made of it, in which order, and what is left
// when it fails.
import t from 'tap';
import { GatewayError } from '../../src/base/lib/gateway-error.ts';
import { denyServerName, runDirect, runProxied, runTunnel } from '../../src/pipeline/enter.ts';
import { begin } from '../../src/pipeline/line/begin.ts';
import { runCall } from '../../src/pipeline/line/run-call.ts';
import { inOrder, STAGES } from '../../src/pipeline/line/stages.ts';
import type { WalkingCall } from '../../src/pipeline/line/walking-call.ts';
import type { LineGround } from '../../src/pipeline/parts/call-services.ts';
import { type Known, LET_GO, type PartName } from '../../src/pipeline/parts/parts.ts';
import { defineStage } from '../../src/pipeline/parts/stage.ts';
import { isRefused } from '../../src/services/money/allowance.ts';
import { elsewhere } from '../support/allowance-elsewhere.ts';
import { ALLOW_ALL, bundleOf, CHAT } from '../support/governed.ts';
import { arrivalOf, boundTo, openPlay, type Play, recordIn } from '../support/played-line.ts';

const CALL = { path: '/v1/chat/completions', body: CHAT };
/** Found out when its estimate is made, behind the monthly count and before policy: it leaves no record. */
const NO_ESTIMATE = { path: CALL.path, body: { ...CHAT, max_tokens: -1 } };
const MONEY = bundleOf(
  '  targets:\n    - {id: all, effect: {decision: allow, rate_limit: {requests_per_minute: 5}}}\n  budgets:\n    - {id: cap, effect: {decision: allow, budget: {usd_max: "1"}}}\n',
);

function callOf(
  play: Play,
  request: Parameters<typeof arrivalOf>[1] = CALL,
  pipeline: LineGround = play.pipeline,
): { call: WalkingCall; said: { body: string } } {
  const arrival = arrivalOf(play, request);
  return { call: begin(arrival, { line: 'proxied', connectionType: 'sdk_redirect' }, pipeline), said: arrival.said };
}

// Holds: stages-store-nothing
t.test('a call is judged, sent, answered and stored, and the last byte follows its record', async (t) => {
  const play = await openPlay(t, { bundle: ALLOW_ALL });
  const { call, said } = callOf(play);
  const record = recordIn(await runCall(call, play.pipeline));
  t.match(record, { decision: 'allow', model: 'gpt-4o-mini', metering: { tokens_in: 11, tokens_out: 7 }, action_type: 'ai.infer' });
  t.same(play.happened, ['call api.openai.com', 'commit', 'whole 200']);
  t.match(said.body, '"completion_tokens":7');
  t.equal(Buffer.from(play.calls[0]?.body as Uint8Array).toString(), JSON.stringify(CHAT), 'what is sent is what came');
});

t.test('the other lines are played likewise: a structured call, a tunnel, a wrong server name', async (t) => {
  const play = await openPlay(t, { bundle: ALLOW_ALL });
  const action = { type: 'ai.infer', method: 'POST', target_host: 'api.openai.com', params: CHAT };
  const envelope = { credential_hint: 'sk-caller', org_id: 'default', workload_id: 'default', action, schema: 'gw.action_request.v2' };
  const direct = arrivalOf(play, { path: '/v1/actions:execute', host: '127.0.0.1', body: envelope });
  t.match(recordIn(await runDirect(direct, play.pipeline)), { connection_type: 'direct_api', decision: 'allow' });
  t.match(JSON.parse(direct.said.body), { decision: 'allow' });
  const { head } = arrivalOf(play, { method: 'CONNECT', path: 'api.openai.com:443' });
  const tunnel = { ...head, door: 'connect' as const, tunnel: { authority: { host: 'api.openai.com', port: 443 } } };
  play.happened.length = 0;
  t.match(recordIn(await runTunnel(tunnel, play.pipeline, { onGone: () => undefined, held: () => undefined })), {
    connection_type: 'connect_proxy',
    decision: 'allow',
    target_host: 'api.openai.com',
  });
  t.match(recordIn(await denyServerName(tunnel, 'api.mistral.ai', play.pipeline)), { decision: 'deny', reason_codes: ['sni_mismatch'] });
  t.same(play.happened, ['commit', 'commit'], 'nothing is sent for a tunnel');
});

// Holds: parts-are-frozen
t.test('every part is frozen as soon as it is made, and those that hold a body are let go of when the call is sent', async (t) => {
  const play = await openPlay(t, { bundle: ALLOW_ALL });
  const { call } = callOf(play);
  let sent: Known = call.parts;
  const { upstream } = play.pipeline;
  const asked = {
    ...upstream,
    call: (...given: Parameters<typeof upstream.call>) => {
      sent = { ...call.parts };
      return upstream.call(...given);
    },
  };
  recordIn(await runCall(call, { ...play.pipeline, upstream: asked }));
  const made = Object.entries(sent).filter(([, part]) => part !== undefined);
  t.ok(made.length > 15, 'the play has seen them');
  t.same(
    made.filter(([, part]) => !Object.isFrozen(part)).map(([name]) => name),
    [],
  );
  t.throws(() => Object.assign(sent.arrival, { callerIp: '' }), TypeError);
  t.same(
    LET_GO.filter((name) => call.parts[name] !== undefined),
    [],
    'they could be held for an hour',
  );
});

// Holds: parts-are-frozen
t.test('a line that is out of order is not put together', async (t) => {
  const stage = (name: string, reads: readonly PartName[], makes: readonly PartName[]) =>
    defineStage<PartName, never, PartName>({ name, reads, makes, run: () => ({}) as never });
  t.throws(() => inOrder([stage('late', ['route'], [])]), { message: 'the stage "late" reads route, which no stage before it makes' });
  const twice = [stage('one', ['arrival'], ['claims']), stage('two', ['claims'], ['claims'])];
  t.throws(() => inOrder(twice), { message: 'the stage "two" makes claims, which a stage before it has made' });
  t.equal(inOrder([...STAGES.proxied]).length, STAGES.proxied.length);
});

t.test('the action as it was received exists on every line, whatever policy makes of it', async (t) => {
  const bundle = bundleOf(
    '  transforms:\n    - {id: all, effect: {decision: downgrade, mutations: [{key: action.params.model, value: gpt-4o-mini}]}}\n',
  );
  const play = await openPlay(t, { bundle });
  const seen: unknown[] = [];
  const { policies } = play.pipeline;
  const { call } = callOf(play, { ...CALL, body: { ...CHAT, model: 'gpt-4o' } });
  const watching = {
    ...boundTo(policies),
    ready(orgId: string) {
      seen.push(call.parts.action?.request.action.params['model']);
      return policies.ready(orgId);
    },
  };
  const record = recordIn(await runCall(call, { ...play.pipeline, policies: watching }));
  t.equal(record.decision, 'downgrade');
  t.same(seen, ['gpt-4o']);
  t.match(Buffer.from(play.calls[0]?.body as Uint8Array).toString(), '"model":"gpt-4o-mini"');
  for (const [line, stages] of Object.entries(STAGES)) {
    const [maker, reader] = [stages.findIndex(({ makes }) => makes.includes('action')), stages.findIndex(({ name }) => name === 'decide')];
    t.ok(maker >= 0 && maker < reader, line);
  }
});

/** Settles and says so. */
function noting(said: string[], name: string) {
  return {
    effects: () => {
      said.push(`${name} effects`);
      return [];
    },
    stored: () => void said.push(`${name} stored`),
    failed: () => void said.push(`${name} failed`),
    abandoned: () => void said.push(`${name} abandoned`),
  };
}

// Holds: stages-store-nothing
t.test('a settlement is asked for its effects and then told one thing: stored, failed, or abandoned', async (t) => {
  const play = await openPlay(t, { bundle: ALLOW_ALL });
  const { store } = play.pipeline;
  const broken = { ...boundTo(store), commit: () => Promise.reject(new GatewayError('record_store_unavailable', 'no room')) };
  const ends: readonly [LineGround, Parameters<typeof arrivalOf>[1], readonly string[], string][] = [
    [play.pipeline, CALL, ['b effects', 'a effects', 'a stored', 'b stored'], 'recorded'],
    [{ ...play.pipeline, store: broken }, CALL, ['b effects', 'a effects', 'a failed', 'b failed'], 'failed'],
    [play.pipeline, { ...CALL, leaves: true }, ['a abandoned', 'b abandoned'], 'failed'],
  ];
  for (const [pipeline, request, expected, kind] of ends) {
    const said: string[] = [];
    const { call } = callOf(play, request, pipeline);
    call.settle(noting(said, 'a'));
    call.settle(noting(said, 'b'));
    t.equal((await runCall(call, pipeline)).kind, kind);
    t.same(said, expected);
  }
});

// Holds: nothing-counts-without-a-record
t.test('a request that leaves no record counts in no month', async (t) => {
  const play = await openPlay(t, { bundle: MONEY, env: { GW_MONTHLY_REQUEST_LIMIT: '2' } });
  const { store } = play.pipeline;
  const broken = {
    ...play.pipeline,
    store: { ...boundTo(store), commit: () => Promise.reject(new GatewayError('record_store_unavailable', 'no room')) },
  };
  for (let time = 0; time < 3; time += 1) {
    t.equal((await runCall(callOf(play, CALL, broken).call, broken)).kind, 'failed');
    t.equal((await runCall(callOf(play, { ...CALL, leaves: true }).call, play.pipeline)).kind, 'failed');
    t.equal((await runCall(callOf(play, NO_ESTIMATE).call, play.pipeline)).kind, 'failed');
  }
  const decisions = [];
  for (let time = 0; time < 3; time += 1) decisions.push(recordIn(await runCall(callOf(play).call, play.pipeline)).reason_codes);
  t.same(
    decisions.map((codes) => codes.includes('monthly_request_limit_exceeded')),
    [false, false, true],
    'two are left, and no more',
  );
});

// Holds: nothing-counts-without-a-record
t.test('what was set aside for a call whose intent could not be stored is given back', async (t) => {
  // Room for the estimate of one call and not for two: the output of a model is assumed to be 4,096 tokens at most.
  const bundle = bundleOf(
    '  budgets:\n    - {id: cap, effect: {decision: allow, budget: {monthly_usd_max: "0.004"}}}\n  targets:\n    - {id: all, effect: {decision: allow}}\n',
  );
  const play = await openPlay(t, { bundle });
  const refuse = () => Promise.reject(new GatewayError('record_store_unavailable', 'no room'));
  const broken = { ...play.pipeline, intents: { ...boundTo(play.pipeline.intents), write: refuse } };
  for (let time = 0; time < 3; time += 1) t.equal((await runCall(callOf(play, CALL, broken).call, broken)).kind, 'failed');
  t.equal(recordIn(await runCall(callOf(play).call, play.pipeline)).decision, 'allow');
  const spender = { orgId: 'default', workloadId: 'default', projectId: '', connectorId: 'openai', providerId: 'openai' };
  const spend = { spender, pico: '3990000000', monthlyCapUsd: '0.004' };
  const held = await play.pipeline.allowance.take({ id: 'next', orgId: 'default', workloadId: 'default', spend });
  t.ok(held !== undefined && !isRefused(held), 'nothing else is set aside');
});

t.test('an allowance that answers with a promise is waited for, and decides alike', async (t) => {
  const env = { GW_MONTHLY_REQUEST_LIMIT: '7' };
  const outcomes = [];
  for (const isElsewhere of [false, true]) {
    const play = await openPlay(t, { bundle: MONEY, env });
    const pipeline = isElsewhere ? { ...play.pipeline, allowance: elsewhere(play.pipeline.allowance) } : play.pipeline;
    const records = [];
    for (let time = 0; time < 9; time += 1) {
      const { decision, reason_codes, metering } = recordIn(await runProxied(arrivalOf(play, CALL), pipeline));
      records.push({ decision, reason_codes, cost: metering?.cost_usd });
    }
    outcomes.push(records);
  }
  t.same(outcomes[1], outcomes[0]);
  t.same([...new Set(outcomes[0]?.map(({ decision }) => decision))].sort(), ['allow', 'deny', 'rate_limit']);
});
