import type { ExportedEvent } from '../event-envelope.ts';
import { caller, given, type Named, type OcsfObject, type OcsfPart, riskScore, SEVERITY, source, text } from './ocsf-frame.ts';

/** OCSF's levels by the lowest score, of 100, that has each. */
const LEVELS: readonly (readonly [from: number, level: Named])[] = [
  [90, [4, 'Critical']],
  [70, [3, 'High']],
  [40, [2, 'Medium']],
  [10, [1, 'Low']],
  [0, [0, 'Info']],
];

const RISK_ANALYTIC = { uid: 'gw.risk_score', name: 'Risk score of a caller', type_id: 2, type: 'Behavioral' };
const QUARANTINE_ANALYTIC = { uid: 'gw.quarantine', name: 'Quarantine by policy', type_id: 1, type: 'Rule' };

/** A score that has reached the threshold, as Detection Finding (class 2004). */
export function riskAlertPart(event: ExportedEvent): OcsfPart {
  const { envelope, id } = event;
  const { payload } = envelope;
  const signals = Array.isArray(payload['signals']) ? payload['signals'].filter((one): one is string => typeof one === 'string') : [];
  const title = `Risk score ${String(payload['risk_score'])} of workload ${envelope.workload_id}`;
  return {
    class: 'detectionFinding',
    activity: [1, 'Create'],
    severity: SEVERITY.high,
    message: title,
    correlation: text(payload, 'record_id'),
    attributes: given({
      status_id: 1,
      status: 'New',
      is_alert: true,
      ...riskOf(payload),
      finding_info: {
        uid: id,
        title,
        desc: `Signals: ${signals.length === 0 ? 'none' : signals.join(', ')}`,
        types: signals,
        created_time: Date.parse(envelope.event_time),
        analytic: RISK_ANALYTIC,
      },
      evidences: [evidence(event)],
    }),
  };
}

/**
 * An entry of quarantine, as Detection Finding: made, and closed when somebody releases it. Both have one
 * `finding_info.uid`.
 */
export function quarantinePart(event: ExportedEvent): OcsfPart {
  const { envelope, id } = event;
  const { payload } = envelope;
  const released = text(payload, 'released_at');
  const title = `Workload ${envelope.workload_id} in quarantine`;
  const createdAt = Date.parse(text(payload, 'created_at') ?? envelope.event_time);
  return {
    class: 'detectionFinding',
    activity: released === undefined ? [1, 'Create'] : [3, 'Close'],
    severity: released === undefined ? SEVERITY.high : SEVERITY.informational,
    message: released === undefined ? title : `${title}: released`,
    profiles: ['security_control'],
    correlation: text(payload, 'record_id'),
    attributes: given({
      status_id: released === undefined ? 1 : 4,
      status: released === undefined ? 'New' : 'Resolved',
      is_alert: released === undefined,
      action_id: released === undefined ? 2 : 1,
      action: released === undefined ? 'Denied' : 'Allowed',
      disposition_id: released === undefined ? 4 : 10,
      disposition: released === undefined ? 'Isolated' : 'Exonerated',
      ...riskOf(payload),
      finding_info: given({
        uid: text(payload, 'quarantine_id') ?? id,
        title,
        desc: text(payload, 'reason'),
        types: payload['reason_codes'],
        created_time: createdAt,
        modified_time: released === undefined ? undefined : Date.parse(released),
        analytic: QUARANTINE_ANALYTIC,
      }),
      evidences: [evidence(event)],
    }),
  };
}

function riskOf(payload: OcsfObject): OcsfObject {
  const score = riskScore(payload);
  const level = score === undefined ? undefined : LEVELS.find(([from]) => score >= from)?.[1];
  return { risk_score: score, risk_level_id: level?.[0], risk_level: level?.[1] };
}

/** Who it is about. */
function evidence(event: ExportedEvent): OcsfObject {
  return { uid: text(event.envelope.payload, 'record_id') ?? event.id, actor: caller(event), src_endpoint: source(event) };
}
