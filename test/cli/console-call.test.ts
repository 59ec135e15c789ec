// A call in the pretty form of the log: one line that fits a terminal.
import t from 'tap';
import { consoleCall } from '../../src/app/console-call.ts';
import { executionLog } from '../../src/app/execution-log.ts';
import { cellWidth } from '../../src/base/lib/cell-width.ts';
import { createLogger } from '../../src/base/lib/log.ts';
import type { LogFormat } from '../../src/base/lib/log-forms.ts';
import { fakedIn, HOSTILE } from '../support/hostile-text.ts';
import { testRecord } from '../support/test-record.ts';

type Told = Parameters<NonNullable<ReturnType<typeof executionLog>['execution']>>[0];

function linesOf(format: LogFormat, record: Readonly<Record<string, unknown>>): string[] {
  const lines: string[] = [];
  const log = createLogger({ level: 'info', format, prettyLine: consoleCall, destination: { write: (line: string) => lines.push(line) } });
  const told = { record: { ...testRecord({}), ...record }, durationMs: 21.4 } as unknown as Told;
  executionLog(log, format).execution?.(told);
  log.info({ port: 7080 }, 'started');
  return lines.join('').split('\n').slice(0, -1);
}

const CALL = {
  decision: 'allow',
  workload_id: 'default',
  action_method: 'POST',
  target_host: 'api.openai.com',
  target_path: '/v1/chat/completions',
  model: 'gpt-4o-mini',
  status_code: 200,
  metering: { model: 'gpt-4o-mini', tokens_in: 1, tokens_out: 1, cost_usd: '0.000165' },
};

t.test('time, decision, who, method, host, model, status, cost, duration', async (t) => {
  const [line = '', next = ''] = linesOf('pretty', CALL);
  t.match(line, /^\d\d:\d\d:\d\d allow default {4}POST api\.openai\.com gpt-4o-mini {2}200 \$0\.000165 {4}21ms$/);
  t.ok(line.length <= 80, String(line.length));
  t.match(next, /INFO: started$/, 'other lines are as they were');
});

t.test('names of any script leave what is behind them where it is', async (t) => {
  const at = (more: object) => {
    const [line = ''] = linesOf('pretty', { ...CALL, ...more });
    return cellWidth(line.slice(0, line.indexOf(' 200 ')));
  };
  for (const workload of ['サポートボット日本語', '🚀🚀 ci', 'e\u0301quipe'])
    for (const model of ['gpt-4o-mini', '大規模言語モデル-日本語版-大規模言語モデル'])
      t.equal(at({ workload_id: workload, model }), at({}), `${workload} ${model}`);
});

t.test('without a model it is the path, and a refusal says why', async (t) => {
  const denied = {
    ...CALL,
    decision: 'deny',
    model: undefined,
    metering: undefined,
    status_code: 403,
    reason_codes: ['model_not_approved', 'second'],
  };
  t.match(
    linesOf('pretty', denied)[0],
    / deny {2}default {4}POST api\.openai\.com \/v1\/chat\/co… 403 {9}- {4}21ms model_not_approved,second$/,
  );
  const failed = { ...CALL, decision: 'error', status_code: 502, error: { code: 'upstream_unreachable', message: 'no' } };
  t.match(linesOf('pretty', failed)[0], / error default .* 502 .* upstream_unreachable$/);
});

t.test('what strangers chose makes no line and no colour', async (t) => {
  const lines = linesOf('pretty', {
    ...CALL,
    model: HOSTILE,
    workload_id: HOSTILE,
    target_host: HOSTILE,
    decision: 'deny',
    reason_codes: [HOSTILE],
  });
  t.same(fakedIn(lines.join('\n')), []);
  t.match(lines[1], /started/);
});

t.test('the JSON form is as it was, without the path', async (t) => {
  const [line = ''] = linesOf('json', CALL);
  const told = JSON.parse(line) as Record<string, unknown>;
  t.match(told, { msg: 'request', decision: 'allow', model: 'gpt-4o-mini', duration_ms: 21.4 });
  t.notOk('path' in told);
  const [failed = ''] = linesOf('json', { ...CALL, decision: 'error', error: { code: 'upstream_unreachable', message: 'no' } });
  t.equal((JSON.parse(failed) as Record<string, unknown>)['error'], 'upstream_unreachable', 'a text, as the reference says');
});
