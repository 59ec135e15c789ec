// Risk through the doors: what rules see of it, what is recorded, counted and told, and what it costs where nobody asks
// for it.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { riskTarget } from '../../src/decide/risk/risk-profile.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { ALLOW_ALL, bundleOf, CHAT, chat, type Governed, startGoverned } from '../support/governed.ts';
import { REALTIME, scene } from '../support/metered-sockets.ts';
import { connectThrough, h2Request, h2Session, openTunnel, type RawResponse } from '../support/raw-clients.ts';
import { gw as runGw } from '../support/run-gw.ts';
import { tempDir } from '../support/temp-dir.ts';

const MINUTE = 60_000;
/** A caller that goes to a new place all of a sudden, and little history to know that by. */
const SETTINGS = {
  GW_RISK_MIN_SAMPLES: '5',
  GW_RISK_NEW_TARGET_THRESHOLD: '2',
  GW_RISK_WEIGHT_NEW_TARGET: '1',
  GW_RISK_WEIGHT_RATE_SPIKE: '0',
};
const BUNDLE = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
  risk:
    - id: odd
      when: {all: [{field: context.risk.score, gte: 0.5}, {field: context.risk.signals, in: [new_target]}]}
      effect: {decision: quarantine, reason: this is not like you}
`);
const ANTHROPIC = '/proxy/anthropic/v1/messages';

type Call = (governed: Governed, caller: string, isNew: boolean) => Promise<RawResponse>;
const headers = (caller: string): string[] => ['X-GW-Caller-ID', caller];

/** The proxied doors by which a call can come, to the usual host or another. */
const DOORS: readonly (readonly [name: string, call: Call])[] = [
  ['redirect', ({ send }, caller, isNew) => send(chat(headers(caller), isNew ? ANTHROPIC : undefined))],
  [
    'tunnel',
    ({ through }, caller, isNew) =>
      through(
        isNew ? 'api.anthropic.com:443' : 'api.openai.com:443',
        chat(headers(caller), isNew ? '/v1/messages' : '/v1/chat/completions'),
      ),
  ],
  [
    'tunnel, h2',
    async ({ gw }, caller, isNew) => {
      const host = isNew ? 'api.anthropic.com' : 'api.openai.com';
      const h2 = h2Session(await connectThrough(gw.port, `${host}:443`, gw.caPem, { alpn: ['h2'] }), host);
      const answer = await h2Request(h2, chat(headers(caller), isNew ? '/v1/messages' : '/v1/chat/completions'));
      h2.destroy();
      return answer;
    },
  ],
  [
    'absolute form',
    ({ send }, caller, isNew) => {
      const host = isNew ? 'api.anthropic.com' : 'api.openai.com';
      return send({ ...chat(headers(caller), `http://${host}${isNew ? '/v1/messages' : '/v1/chat/completions'}`), host });
    },
  ],
];

t.test('a rule sees the score on every proxied door, and puts a caller into quarantine who is not as usual', async (t) => {
  const governed = await startGoverned(t, { bundle: BUNDLE, env: SETTINGS });
  for (const [name, call] of DOORS) {
    const caller = name.replaceAll(/\W/g, '-');
    // The upstream speaks TLS alone, so that what comes in absolute form is let through and fails.
    for (let n = 0; n < 20; n += 1)
      t.match(await governed.recordOf(await call(governed, caller, false)), { risk_score: 0, risk_signals: [] });
    const odd = await call(governed, caller, true);
    t.equal(odd.status, 403, name);
    t.match(await governed.recordOf(odd), { decision: 'quarantine', risk_signals: ['new_target'], reason: 'this is not like you' });
    t.equal((await call(governed, caller, false)).status, 403, 'until a person has looked');
    const entries = (await governed.gw.admin('GET', '/v1/admin/quarantine?active=true')).body as {
      items: { caller_id: string; risk_score: number }[];
    };
    t.ok((entries.items.find(({ caller_id: id }) => id === caller)?.risk_score ?? 0) >= 0.5, 'the entry has the score');
  }
});

t.test('the same on the structured API and on a metered WebSocket', async (t) => {
  const governed = await startGoverned(t, { bundle: BUNDLE, env: SETTINGS });
  const ask = (action: object = {}) => governed.execute({ caller_id: 'alice' }, action);
  for (let n = 0; n < 20; n += 1) t.equal((await ask()).status, 200);
  const odd = await ask({ target_host: 'api.mistral.ai', params: { ...CHAT, model: 'mistral-small-latest' } });
  t.match([odd.status, odd.body['decision']], [403, 'quarantine']);
  const { open, gw } = await scene(t, { bundle: BUNDLE, env: SETTINGS });
  const talk = await open(REALTIME);
  for (let n = 0; n < 8; n += 1) await talk.say({ type: 'response.create' }, 'response.done');
  t.match((await gw.admin('GET', '/metrics')).text, /gw_risk_score\{org_id="default"\} 0\n/, 'calls on a socket are scored');
});

t.test('a CONNECT that is not opened is judged by where it leads', async (t) => {
  const governed = await startGoverned(t, { bundle: BUNDLE, env: { ...SETTINGS, GW_PROXY_MITM_ENABLED: 'false' } });
  const connect = (host: string): Promise<unknown> =>
    openTunnel(governed.gw.port, `${host}:443`).then(
      (socket) => void socket.destroy(),
      (refused: unknown) => refused,
    );
  for (let n = 0; n < 20; n += 1) t.equal(await connect('api.openai.com'), undefined);
  t.match(await connect('api.mistral.ai'), { status: 403, body: /this is not like you/ });
});

t.test('each call on a WebSocket is judged for itself', async (t) => {
  const bundle = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
  risk:
    - {id: large, when: {field: context.risk.signals, in: [prompt_size_anomaly]}, effect: {decision: deny, reason: far too long}}
`);
  const { open } = await scene(t, { bundle, env: SETTINGS });
  const talk = await open(REALTIME);
  const ask = (instructions: string, until: string) => talk.say({ type: 'response.create', response: { instructions } }, until);
  for (let n = 0; n < 15; n += 1) await ask('be brief', 'response.done');
  t.match(await ask('word '.repeat(5_000), 'error'), { error: { message: /far too long/ } });
  t.match(await ask('be brief', 'response.done'), { type: 'response.done' });
});

// Holds: risk-keeps-no-names
t.test('an alert comes before the decision, is in the log of events and counted; records say what fired', async (t) => {
  const clock = fakeClock();
  const delivered: { readonly name: string; readonly event: unknown }[] = [];
  const siem = {
    id: 'siem',
    deliver: (batch: readonly { readonly name: string; readonly event: unknown }[]) => Promise.resolve(void delivered.push(...batch)),
  };
  const governed = await startGoverned(t, {
    bundle: ALLOW_ALL,
    clock,
    destinations: [siem],
    env: { ...SETTINGS, GW_RISK_ALERT_THRESHOLD: '0.6' },
  });
  const ask = (action: object = {}) => governed.execute({ caller_id: 'alice' }, action);
  for (let n = 0; n < 20; n += 1) {
    await ask();
    clock.advance(MINUTE);
  }
  const odd = await ask({ target_host: 'api.mistral.ai', params: { ...CHAT, model: 'mistral-small-latest' } });
  t.equal(odd.status, 200);
  const record = await governed.gw.record(String(odd.body['record_id']));
  t.match(record, { risk_signals: ['new_target'] });
  while (!delivered.some(({ name }) => name === 'riskAlert')) await new Promise((resolve) => setImmediate(resolve));
  t.match(
    delivered.filter(({ name }) => name === 'riskAlert').map(({ event }) => event),
    [
      {
        risk_score: record['risk_score'],
        signals: ['new_target'],
        caller_id: 'alice',
        org_id: 'default',
        workload_id: 'default',
        request_rate: String,
        cost_rate: String,
        record_id: record['record_id'],
      },
    ],
  );
  const metrics = (await governed.gw.admin('GET', '/metrics')).text;
  t.match(metrics, /gw_risk_signals\{signal_type="new_target",org_id="default"\} 1\n/);
  t.match(metrics, /gw_risk_score\{org_id="default"\} 0\.\d+\n/);
  t.equal((await ask()).status, 200, 'an alert refuses nothing');
});

t.test('where no rule asks for it and nobody is told, nothing is scored; GW_RISK_ENABLED says otherwise', async (t) => {
  const scoreOf = async (governed: Governed): Promise<unknown> => {
    const { body } = await governed.execute();
    return (await governed.gw.record(String(body['record_id'])))['risk_score'];
  };
  t.equal(await scoreOf(await startGoverned(t, { bundle: ALLOW_ALL })), undefined);
  t.equal(await scoreOf(await startGoverned(t, { bundle: BUNDLE })), 0);
  t.equal(await scoreOf(await startGoverned(t, { bundle: BUNDLE, env: { GW_RISK_ENABLED: 'false' } })), undefined);
  t.equal(await scoreOf(await startGoverned(t, { bundle: ALLOW_ALL, env: { GW_RISK_ENABLED: 'true' } })), 0);
});

t.test('what is usual for a caller is known after a restart', async (t) => {
  const first = await startGoverned(t, { bundle: BUNDLE, env: SETTINGS });
  for (let n = 0; n < 20; n += 1) await first.execute({ caller_id: 'alice' });
  await first.gw.gateway.stop();
  const second = await startGoverned(t, { bundle: BUNDLE, env: { ...SETTINGS, GW_DATA_DIR: first.gw.dataDir } });
  t.equal((await second.execute({ caller_id: 'alice' })).status, 200);
  const odd = await second.execute(
    { caller_id: 'alice' },
    { target_host: 'api.mistral.ai', params: { ...CHAT, model: 'mistral-small-latest' } },
  );
  t.equal(odd.status, 403);
});

t.test('gw risk replay scores what is recorded, with the settings that are tried', async (t) => {
  const governed = await startGoverned(t, { bundle: ALLOW_ALL, clock: fakeClock() });
  for (let n = 0; n < 20; n += 1) await governed.execute({ caller_id: 'alice' });
  await governed.execute({ caller_id: 'alice' }, { target_host: 'api.mistral.ai', params: { ...CHAT, model: 'mistral-small-latest' } });
  await governed.gw.gateway.stop();
  const data = ['--data', governed.gw.dataDir];
  const replay = (args: readonly string[], env: Record<string, string> = SETTINGS) => runGw(['risk', 'replay', ...args], { env });
  const text = await replay(data);
  t.match(text, { code: 0, out: /21 calls of 1 callers; in 1 of them/ });
  t.match(text.out, /default\/default\/alice {2}new_target/);
  const json = JSON.parse((await replay([...data, '--json', '--threshold', '0.5'])).out) as { fired: Record<string, number> };
  t.match(json, {
    calls: 21,
    callers: 1,
    fired: { new_target: 1, rate_spike: 0 },
    above: 1,
    alerts: 1,
    threshold: 0.5,
    top: [{ signals: ['new_target'] }],
  });
  t.match((await replay(data, {})).out, /in 0 of them \(0.00 %\)/, 'with the defaults there is too little history');
  t.match((await replay([...data, '--from', '2030-01-01T00:00:00Z'])).out, /^0 calls/);
  const file = join(tempDir(t), 'records.ndjson');
  writeFileSync(file, '{"schema": "other"}\n');
  for (const [args, err] of [
    [[], /give either --records FILE or --data FOLDER/],
    [['--records', file], /records.ndjson:1: this is not an execution record/],
    [['--records', `${file}x`], /no such file/],
    [[...data, '--threshold', '2'], /--threshold takes a score/],
    [[...data, '--from', 'now'], /--from takes/],
    [[...data, '--what'], /there is no option --what/],
    [['x'], /there is no use for "x"/],
  ] as const) {
    t.match(await replay(args), { code: 2, err });
  }
  t.match(await replay(data, { GW_RISK_WEIGHT_OFF_HOURS: '2' }), { code: 2, err: /GW_RISK_WEIGHT_OFF_HOURS/ });
});

t.test('what counts as a target is host and kind of action', async (t) => {
  t.not(riskTarget('a', 'ai.infer'), riskTarget('a', 'http.request'));
});
