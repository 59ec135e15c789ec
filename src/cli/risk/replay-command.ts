import { parseTime, timestamp } from '../../base/lib/clock.ts';
import { withDecimals } from '../../base/lib/text.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { RISK_SIGNALS } from '../../base/model/risk-alert.ts';
import { type ReplayedCall, RiskReplay, type RiskSummary } from '../../decide/risk/risk-replay.ts';
import { replayedCall } from '../../services/learning/recorded-risk.ts';
import { riskSettings } from '../../services/learning/risk-settings.ts';
import { type CliIo, type Command, EXIT_OK, UsageError } from '../command.ts';
import { readOptions } from '../policy/policy-target.ts';
import { recordTexts, wholeRecord } from '../record-texts.ts';
import { settingsOf } from '../settings-of.ts';
import { cellText, printJson } from '../terminal-text.ts';

/** Scores calls that were recorded. */
export const replayRisk: Command = {
  name: 'risk replay',
  usage: '<--records FILE | --data FOLDER> [--from TIME] [--threshold SCORE] [--json]',
  summary:
    'Scores recorded calls (a file with one record a line, - for standard input, or the data folder of a stopped gateway) as GW_RISK_* say, so that these can be chosen; alerts are counted at GW_RISK_ALERT_THRESHOLD or --threshold.',
  run: runReplay,
};

async function runReplay(args: readonly string[], io: CliIo): Promise<number> {
  const { values, paths } = readOptions(args, { records: 'string', data: 'string', from: 'string', threshold: 'string', json: 'boolean' });
  if (paths.length > 0) throw new UsageError(`there is no use for ${JSON.stringify(paths[0])}`);
  const from = values.from === undefined ? Number.NEGATIVE_INFINITY : parseTime(values.from);
  if (from === undefined) throw new UsageError('--from takes an RFC 3339 time such as 2026-11-01T00:00:00Z');
  const config = settingsOf(io);
  const alertAt = values.threshold === undefined ? config.riskAlertThreshold : Number(values.threshold);
  if (!(alertAt >= 0 && alertAt <= 1)) throw new UsageError('--threshold takes a score from 0 to 1');
  const calls: ReplayedCall[] = [];
  for await (const document of recordTexts(values, io)) {
    const call = replayedCall(wholeRecord(document) as unknown as ExecutionRecord);
    if (call !== undefined && call.request.at >= from) calls.push(call);
  }
  // As they came, not as they ended: ids are made in that order (RFC 9562 §5.7).
  calls.sort((a, b) => a.request.at - b.request.at || (a.id < b.id ? -1 : 1));
  const replay = new RiskReplay(riskSettings(config), alertAt);
  for (const call of calls) replay.add(call);
  const summary = replay.result();
  if (values.json === true) printJson({ threshold: alertAt, ...summary }, io);
  else io.stdout(riskText(summary, alertAt));
  return EXIT_OK;
}

/** A replay, for people. */
function riskText({ calls, callers, fired, tenths, above, alerts, top }: RiskSummary, alertAt: number): string {
  const scored = tenths.reduce((sum, one) => sum + one, 0);
  const lines = [
    `${calls} calls of ${callers} callers; in ${scored} of them (${share(scored, calls)}) a signal fired`,
    '',
    'signal                  calls   share',
    ...RISK_SIGNALS.map((signal) => `${signal.padEnd(20)} ${String(fired[signal]).padStart(8)} ${share(fired[signal], calls).padStart(8)}`),
    '',
    'score                   calls',
    ...tenths.map(
      (count, tenth) => `${withDecimals(tenth / 10, 1)} to ${withDecimals((tenth + 1) / 10, 1)}           ${String(count).padStart(8)}`,
    ),
    '',
    `${above} calls (${share(above, calls)}) have a score of ${alertAt} or more: ${alerts} alerts`,
    ...(top.length === 0 ? [] : ['', 'the most unusual']),
    ...top.map(
      ({ score, signals, caller, at, id }) =>
        `${withDecimals(score, 2)}  ${timestamp(at)}  ${cellText(caller)}  ${signals.join(', ')}  ${cellText(id)}`,
    ),
  ];
  return `${lines.join('\n')}\n`;
}

function share(part: number, all: number): string {
  return all === 0 ? '0 %' : `${withDecimals((part / all) * 100, 2)} %`;
}
