// `GW_LOG_LEVEL=trace` tells of each stage what it took and how it ended, and nothing of the request.
import t from 'tap';
import { createLogger } from '../../src/base/lib/log.ts';
import { LOG_LEVELS, type LogLevel } from '../../src/base/lib/log-forms.ts';
import { runDirect, runProxied } from '../../src/pipeline/enter.ts';
import { begin } from '../../src/pipeline/line/begin.ts';
import { STAGES } from '../../src/pipeline/line/stages.ts';
import { timed } from '../../src/pipeline/line/timed-stages.ts';
import type { StageTime } from '../../src/pipeline/parts/call-services.ts';
import { defineStage, type Stage } from '../../src/pipeline/parts/stage.ts';
import { ALLOW_ALL, bundleOf, CHAT } from '../support/governed.ts';
import { arrivalOf, openPlay, recordIn } from '../support/played-line.ts';

type Line = Readonly<Record<string, unknown>>;

const SECRET = 'sk-caller-planted';
const PROMPT = 'the-secret-prompt';
const BODY = { ...CHAT, messages: [{ role: 'user', content: PROMPT }] };
const CALL = { path: '/v1/chat/completions?key=planted-query', body: BODY, headers: { authorization: `Bearer ${SECRET}` } };

function gathered(level: LogLevel) {
  const lines: Line[] = [];
  const log = createLogger({ level, format: 'json', destination: { write: (text) => void lines.push(JSON.parse(text) as Line) } });
  return { log, stages: () => lines.filter(({ msg }) => msg === 'stage') };
}

t.test('each stage of a call is one line, in order, with the id of its record', async (t) => {
  const { log, stages } = gathered('trace');
  const play = await openPlay(t, { bundle: ALLOW_ALL, log });
  const record = recordIn(await runProxied(arrivalOf(play, CALL), play.pipeline));
  t.equal(record.decision, 'allow');
  t.strictSame(
    stages().map(({ stage }) => stage),
    STAGES.proxied.map(({ name }) => name),
  );
  for (const { stage, time, microseconds, ...rest } of stages()) {
    t.strictSame(rest, { level: 'trace', record_id: record.record_id, line: 'proxied', ended: 'next', msg: 'stage' }, String(stage));
    t.ok(Number.isInteger(microseconds) && Number(microseconds) >= 0, `${String(stage)}: ${String(microseconds)}`);
  }
  t.notMatch(JSON.stringify(stages()), new RegExp(`${SECRET}|${PROMPT}|planted-query`));
});

t.test('the last line is that of the stage that ended the call, with the decision or the error code', async (t) => {
  const { log, stages } = gathered('trace');
  const deny = bundleOf('  targets:\n    - {id: no, effect: {decision: deny, reason_codes: [not_today], reason: not gpt}}\n');
  const play = await openPlay(t, { bundle: deny, log });
  const denied = recordIn(await runProxied(arrivalOf(play, CALL), play.pipeline));
  t.match(stages().at(-1), { stage: 'decide', ended: 'deny', reason_codes: denied.reason_codes, record_id: denied.record_id });
  t.equal(stages().filter(({ ended }) => ended !== 'next').length, 1);
  const before = stages().length;
  const misshapen = arrivalOf(play, { path: '/v1/actions:execute', host: '127.0.0.1', body: { schema: 'nothing' } });
  t.match(await runDirect(misshapen, play.pipeline), { kind: 'failed', error: { code: 'invalid_request' } });
  const failed = stages().slice(before);
  t.match(failed.at(-1), { line: 'direct', ended: 'invalid_request', reason_codes: undefined });
  t.strictSame(
    failed.map(({ stage }) => stage),
    STAGES.direct.slice(0, failed.length).map(({ name }) => name),
  );
});

t.test('at every other level nobody is told, and the stages themselves are walked', async (t) => {
  for (const level of LOG_LEVELS.filter((one) => one !== 'trace')) {
    const { log, stages } = gathered(level);
    const play = await openPlay(t, { bundle: ALLOW_ALL, log });
    t.equal(play.pipeline.tellStage, undefined, level);
    recordIn(await runProxied(arrivalOf(play, CALL), play.pipeline));
    t.strictSame(stages(), [], level);
  }
});

t.test('a stage that waits is timed to its end, by the clock of the line; one that fails still fails', async (t) => {
  const play = await openPlay(t, { bundle: ALLOW_ALL });
  const told: StageTime[] = [];
  let at = 5;
  const pipeline = {
    ...play.pipeline,
    clock: { ...play.pipeline.clock, monotonic: () => at },
    tellStage: (time: StageTime) => void told.push(time),
  };
  const call = begin(arrivalOf(play, CALL), { line: 'proxied', connectionType: 'sdk_redirect' }, pipeline);
  const run = (stage: Stage) => timed(stage).run(call.parts, pipeline, call);
  const slow = defineStage<never>({
    name: 'slow',
    reads: [],
    run: async () => {
      await Promise.resolve();
      at += 1.25;
      return undefined;
    },
  });
  t.equal(await run(slow), undefined);
  const broken = defineStage<never>({
    name: 'broken',
    reads: [],
    run: () => {
      at += 0.5;
      throw new TypeError(PROMPT);
    },
  });
  t.throws(() => run(broken), TypeError);
  const late = defineStage<never>({ name: 'late', reads: [], run: () => Promise.reject(new TypeError(PROMPT)) });
  await t.rejects(run(late) as Promise<unknown>, TypeError);
  t.match(told, [
    { stage: 'slow', microseconds: 1250, ended: 'next' },
    { stage: 'broken', microseconds: 500, ended: 'internal' },
    { stage: 'late', microseconds: 0, ended: 'internal' },
  ]);
  t.notMatch(JSON.stringify(told), PROMPT);
});
