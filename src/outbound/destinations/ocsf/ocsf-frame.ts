import { packageVersion } from '../../../base/lib/package-root.ts';
import type { ExportedEvent } from '../event-envelope.ts';

/**
 * The version of the Open Cybersecurity Schema Framework that events are made for; names and numbers below are of it.
 */
export const OCSF_VERSION = '1.8.0';

const PRODUCT = 'AI Request Gateway';

/** Classes of events, with the categories that they belong to. */
export const OCSF_CLASSES = {
  base: { uid: 0, name: 'Base Event', category: 0, categoryName: 'Uncategorized' },
  apiActivity: { uid: 6003, name: 'API Activity', category: 6, categoryName: 'Application Activity' },
  entityManagement: { uid: 3004, name: 'Entity Management', category: 3, categoryName: 'Identity & Access Management' },
  detectionFinding: { uid: 2004, name: 'Detection Finding', category: 2, categoryName: 'Findings' },
} as const;

/** A number of an enumeration with its name. */
export type Named = readonly [id: number, name: string];

/** `activity_id` of whatever no number is for. */
export const OTHER_ACTIVITY = 99;

export const SEVERITY = {
  informational: [1, 'Informational'],
  low: [2, 'Low'],
  medium: [3, 'Medium'],
  high: [4, 'High'],
} as const satisfies Record<string, Named>;

/** JSON as it is sent; members that are undefined are not there. */
export type OcsfObject = Readonly<Record<string, unknown>>;

/** What a kind of event says beside what all of them do. */
export interface OcsfPart {
  readonly class: keyof typeof OCSF_CLASSES;
  readonly activity: Named;
  readonly severity: Named;
  /** For people. */
  readonly message: string;
  /** Milliseconds since the epoch, where it is not that of the envelope. */
  readonly time?: number | undefined;
  readonly profiles?: readonly string[];
  /** What it belongs together with. */
  readonly correlation?: string | undefined;
  readonly attributes: OcsfObject;
}

/**
 * The whole event. `metadata.uid` is the same whenever it comes again; `unmapped` is the whole payload, so that nothing
 * is lost and a record can be verified.
 */
export function framed({ id, envelope }: ExportedEvent, part: OcsfPart): OcsfObject {
  const { uid, name, category, categoryName } = OCSF_CLASSES[part.class];
  const [activity, activityName] = part.activity;
  const [severity, severityName] = part.severity;
  const { profiles = [], correlation } = part;
  return {
    class_uid: uid,
    class_name: name,
    category_uid: category,
    category_name: categoryName,
    activity_id: activity,
    activity_name: activityName,
    type_uid: uid * 100 + activity,
    type_name: `${name}: ${activityName}`,
    severity_id: severity,
    severity: severityName,
    time: part.time ?? Date.parse(envelope.event_time),
    message: part.message,
    metadata: {
      version: OCSF_VERSION,
      product: { name: PRODUCT, vendor_name: PRODUCT, version: packageVersion() },
      uid: id,
      event_code: envelope.event_type,
      log_name: envelope.event_type,
      original_time: envelope.event_time,
      ...(envelope.org_id === '' ? {} : { tenant_uid: envelope.org_id }),
      ...(correlation === undefined ? {} : { correlation_uid: correlation }),
      ...(profiles.length === 0 ? {} : { profiles }),
    },
    ...part.attributes,
    unmapped: envelope.payload,
  };
}

/** A member that is a text with something in it. */
export function text(payload: OcsfObject, member: string): string | undefined {
  const value = payload[member];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** A member that is a number, as a whole one: OCSF has no others. */
export function whole(payload: OcsfObject, member: string): number | undefined {
  const value = payload[member];
  return typeof value === 'number' && Number.isFinite(value) ? Math.round(value) : undefined;
}

export function object(payload: OcsfObject, member: string): OcsfObject {
  const value = payload[member];
  return typeof value === 'object' && value !== null ? (value as OcsfObject) : {};
}

/** The members that have a value. */
export function given(members: OcsfObject): OcsfObject {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
}

/** Who called: a workload, and somebody in it where he has a name. */
export function caller({ envelope: { org_id: org, workload_id: workload, payload } }: ExportedEvent): OcsfObject {
  const name = text(payload, 'caller_id');
  return {
    app_uid: workload === '' ? 'unknown' : workload,
    app_name: workload === '' ? 'unknown' : workload,
    ...(name === undefined
      ? {}
      : { user: given({ uid: name, name, type_id: 0, type: 'Unknown', org: org === '' ? undefined : { uid: org } }) }),
  };
}

/** Where a call came from. */
export function source({ envelope: { workload_id: workload, payload } }: ExportedEvent): OcsfObject {
  const ip = text(payload, 'caller_ip');
  return ip === undefined ? { name: workload === '' ? 'unknown' : workload } : { ip };
}

/** A score from 0 to 1 as OCSF counts it. */
export function riskScore(payload: OcsfObject): number | undefined {
  const score = payload['risk_score'];
  return typeof score === 'number' && score >= 0 && score <= 1 ? Math.round(score * 100) : undefined;
}
