import { parseTime } from '../../base/lib/rfc3339.ts';
import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { type ReplayedCall, RiskReplay } from '../../decide/risk/risk-replay.ts';
import { replayedCall } from '../../services/learning/recorded-risk.ts';
import { riskSettings } from '../../services/learning/risk-settings.ts';
import { type CliIo, type Command, EXIT_OK, UsageError } from '../command.ts';
import { readOptions } from '../policy/options.ts';
import { printJson } from '../print-json.ts';
import { recordTexts, wholeRecord } from '../record-texts.ts';
import { settingsOf } from '../settings-of.ts';
import { riskText } from './risk-text.ts';

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
