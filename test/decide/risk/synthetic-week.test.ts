// What the default settings find in made-up traffic that has labelled anomalies. The thresholds were chosen with the
// seeds 1 to 3; these are others.
import t from 'tap';
import { loadConfig } from '../../../src/base/config/config.ts';
import { RISK_SIGNALS, type RiskSignal } from '../../../src/base/model/risk-alert.ts';
import { riskSettings } from '../../../src/services/learning/risk-settings.ts';
import { judgeWeek, type SignalReport, syntheticTraffic, type WeekReport } from '../../support/synthetic-week.ts';

const SEEDS = [11, 12];
/**
 * Of what is found, and of what is right. Costs and prompts of some kinds of callers vary by factors of ten by
 * themselves, and agents work at odd hours now and then: there an alarm is worth little alone, which is why the score
 * adds them up.
 */
const FLOORS: Readonly<Record<RiskSignal, { readonly precision: number; readonly recall: number }>> = {
  rate_spike: { precision: 0.95, recall: 0.9 },
  cost_anomaly: { precision: 0.75, recall: 0.9 },
  new_target: { precision: 0.95, recall: 0.95 },
  off_hours: { precision: 0.65, recall: 0.9 },
  deny_burst: { precision: 0.95, recall: 0.9 },
  prompt_size_anomaly: { precision: 0.9, recall: 0.85 },
};

t.test('in a week of six kinds of callers each signal finds its anomalies, and ordinary requests stay below 0.3', async (t) => {
  const { config } = loadConfig({}, false);
  const reports = SEEDS.map((seed) => judgeWeek(syntheticTraffic(seed), riskSettings(config)));
  for (const signal of RISK_SIGNALS) {
    const { incidents, found, alarms, right } = sumOf(reports, signal);
    const [precision, recall] = [right / alarms, found / incidents];
    t.comment(
      `${signal}: ${found} of ${incidents} found (recall ${recall.toFixed(2)}), ${right} of ${alarms} alarms right (precision ${precision.toFixed(2)})`,
    );
    t.ok(precision >= FLOORS[signal].precision, `${signal}: precision ${precision}`);
    t.ok(recall >= FLOORS[signal].recall, `${signal}: recall ${recall}`);
  }
  const ordinary = reports.flatMap((report) => report.ordinary);
  const above = (level: number): number => ordinary.filter((score) => score >= level).length;
  t.comment(`${ordinary.length} ordinary requests: ${above(0.3)} reach 0.3, ${above(config.riskAlertThreshold)} would raise an alert`);
  t.ok(above(0.3) / ordinary.length < 0.001);
  t.equal(above(config.riskAlertThreshold), 0);
  const thefts = reports.flatMap(({ incidents }) => [...incidents].filter(([id]) => id.endsWith(': theft')).map(([, score]) => score));
  t.comment(`${thefts.length} thefts: ${thefts.filter((score) => score >= config.riskAlertThreshold).length} raise an alert`);
  t.ok(
    thefts.every((score) => score >= 0.3),
    'what is unusual in several ways always reaches a reasonable threshold',
  );
});

function sumOf(reports: readonly WeekReport[], signal: RiskSignal): SignalReport {
  const sum = { incidents: 0, found: 0, alarms: 0, right: 0 };
  for (const { signals } of reports)
    for (const member of ['incidents', 'found', 'alarms', 'right'] as const) sum[member] += signals[signal][member];
  return sum;
}
