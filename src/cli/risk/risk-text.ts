import { timestamp } from '../../base/lib/clock.ts';
import { withDecimals } from '../../base/lib/numbers.ts';
import { RISK_SIGNALS } from '../../base/model/risk-alert.ts';
import type { RiskSummary } from '../../decide/risk/risk-replay.ts';
import { cellText } from '../terminal-text.ts';

/** A replay, for people. */
export function riskText({ calls, callers, fired, tenths, above, alerts, top }: RiskSummary, alertAt: number): string {
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
