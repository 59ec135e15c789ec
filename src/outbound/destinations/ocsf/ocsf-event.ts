import type { ExportedEvent } from '../event-envelope.ts';
import { approvalPart, auditPart } from './ocsf-entity.ts';
import { executionPart } from './ocsf-execution.ts';
import { quarantinePart, riskAlertPart } from './ocsf-finding.ts';
import { framed, type OcsfObject, type OcsfPart, OTHER_ACTIVITY, SEVERITY } from './ocsf-frame.ts';

/** How each event is said (decision 12.5). */
const PARTS: Readonly<Record<string, (event: ExportedEvent) => OcsfPart>> = {
  execution: executionPart,
  approval: approvalPart,
  audit: auditPart,
  quarantine: quarantinePart,
  risk_alert: riskAlertPart,
};

/**
 * An exported event in the form of the Open Cybersecurity Schema Framework. One that no class is for (`test`) is a base
 * event.
 */
export function ocsfEvent(event: ExportedEvent): OcsfObject {
  const { event_type: type } = event.envelope;
  return framed(event, PARTS[type]?.(event) ?? otherPart(type));
}

function otherPart(type: string): OcsfPart {
  return { class: 'base', activity: [OTHER_ACTIVITY, type], severity: SEVERITY.informational, message: `Event ${type}`, attributes: {} };
}
