import { MAX_HOLD } from '../model/approval.ts';
import * as type from './setting-types.ts';
import { optional, required, type Setting } from './setting-types.ts';

const DEVIATIONS = 'standard deviations above the mean, of logarithms';

function weight(signal: string, fallback: string): Setting<number> {
  const help = `Weight of the risk signal \`${signal.toLowerCase()}\`; 0 switches it off.`;
  return required(`GW_RISK_WEIGHT_${signal}`, type.decimal(0, 1), fallback, help);
}

function threshold(signal: string, fallback: string, unit: string): Setting<number> {
  const help = `Where the risk signal \`${signal.toLowerCase()}\` starts to count: ${unit}.`;
  return required(`GW_RISK_${signal}_THRESHOLD`, type.decimal(0.001, 1_000_000), fallback, help);
}

/** Approvals, delegation, quarantine and risk. */
export const CONTROL_SETTINGS = {
  approvalEnabled: required('GW_APPROVAL_ENABLED', type.boolean, 'true', 'Approvals; without them `require_approval` is a refusal (403).'),
  approvalTtl: required(
    'GW_APPROVAL_TTL',
    type.duration('1s', '365d'),
    '24h',
    'How long a request waits for an approval, and how long one that was given can be used.',
  ),
  approvalRejectFor: required(
    'GW_APPROVAL_REJECT_FOR',
    type.duration('0', '365d'),
    '24h',
    'How long an approval that was denied or has expired rejects identical requests.',
  ),
  approvalHold: required(
    'GW_APPROVAL_HOLD',
    type.duration('0', MAX_HOLD),
    '0s',
    'How long a call waits on its open connection for its approval, before it is answered that it waits; `effect.approval.hold` of a rule counts before this.',
  ),
  approvalKeepContent: required(
    'GW_APPROVAL_KEEP_CONTENT',
    type.boolean,
    'false',
    'Keeps the params of requests that wait, sealed, so that whoever may decide can read them.',
  ),

  delegationVerifyKey: optional(
    'GW_DELEGATION_VERIFY_KEY',
    type.verifyKeys,
    'Public Ed25519 keys that verify delegation tokens; while it is unset every token is denied.',
  ),

  quarantineRunning: required(
    'GW_QUARANTINE_RUNNING',
    type.choice(['leave', 'end']),
    'leave',
    'What becomes of the calls, streams and WebSockets of a caller that are under way when it is put into quarantine.',
  ),

  riskEnabled: required(
    'GW_RISK_ENABLED',
    type.choice(['auto', 'true', 'false']),
    'auto',
    'Whether requests get a risk score. `auto`: where a rule of the bundle, or of the shadow bundle, reads `context.risk`, or a channel or export destination wants `risk_alert`.',
  ),
  riskAlertThreshold: required('GW_RISK_ALERT_THRESHOLD', type.decimal(0, 1), '0.7', 'Score from which `risk_alert` events are sent.'),
  riskMinSamples: required(
    'GW_RISK_MIN_SAMPLES',
    type.integer(1, 1_000_000),
    '50',
    'Requests of a caller that must have been seen before a signal fires.',
  ),
  riskMaxCallers: required(
    'GW_RISK_MAX_CALLERS',
    type.integer(1, 1_000_000),
    '10000',
    'Callers whose profiles are in memory, about 1.5 kB each; those of others are read from the store when they call.',
  ),
  riskWeightRateSpike: weight('RATE_SPIKE', '0.8'),
  riskRateSpikeThreshold: threshold('RATE_SPIKE', '3.5', DEVIATIONS),
  riskWeightCostAnomaly: weight('COST_ANOMALY', '0.8'),
  riskCostAnomalyThreshold: threshold('COST_ANOMALY', '4.5', DEVIATIONS),
  riskWeightNewTarget: weight('NEW_TARGET', '0.4'),
  riskNewTargetThreshold: threshold('NEW_TARGET', '20', 'requests among which a new target is usual once'),
  riskWeightOffHours: weight('OFF_HOURS', '0.5'),
  riskOffHoursThreshold: threshold('OFF_HOURS', '5', 'times rarer than the hours in which the caller is usually there'),
  riskWeightDenyBurst: weight('DENY_BURST', '0.8'),
  riskDenyBurstThreshold: threshold('DENY_BURST', '5', 'refusals within minutes beyond what is usual'),
  riskWeightPromptSizeAnomaly: weight('PROMPT_SIZE_ANOMALY', '0.6'),
  riskPromptSizeAnomalyThreshold: threshold('PROMPT_SIZE_ANOMALY', '4', DEVIATIONS),
};
