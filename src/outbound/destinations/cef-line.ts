import { isJsonObject } from '../../base/json/json-object.ts';
import { shownText } from '../../base/lib/shown-text.ts';
import type { EventEnvelope, ExportedEvent } from './event-envelope.ts';

/** CEF's severities go from 0 to 10, those of syslog from 7 to 0. */
const SEVERITIES: readonly number[] = [10, 10, 9, 8, 6, 4, 2, 0];
const TEXT = 1_023;

/** Extension keys of CEF by what our payloads call them. */
const KEYS: readonly (readonly [key: string, member: string])[] = [
  ['act', 'decision'],
  ['act', 'operation'],
  ['src', 'caller_ip'],
  ['src', 'from'],
  ['suser', 'caller_id'],
  ['dhost', 'target_host'],
  ['request', 'target_path'],
  ['requestMethod', 'action_method'],
  ['reason', 'reason'],
  ['fileHash', 'record_hash'],
];
/** Custom strings with their labels. */
const LABELLED: readonly (readonly [label: string, member: string])[] = [
  ['model', 'model'],
  ['provider', 'provider'],
  ['approvalId', 'approval_id'],
  ['quarantineId', 'quarantine_id'],
  ['auditId', 'audit_id'],
  ['object', 'object'],
  ['objectName', 'object_name'],
  ['decidedBy', 'decided_by'],
  ['releasedBy', 'released_by'],
];

/**
 * An event as a line of the Common Event Format; `externalId` is the same whenever it comes again.
 * @param severity of syslog
 */
export function cefLine({ id, envelope }: ExportedEvent, severity: number): string {
  const { event_type: type, event_time: time, org_id: org, workload_id: workload, payload } = envelope;
  const head = ['CEF:0', 'AI Request Gateway', 'ai-request-gateway', '1', type, nameOf(envelope)].map((text) => inHead(text));
  const fields: string[] = [`rt=${Date.parse(time)}`, `externalId=${id}`];
  for (const [key, member] of KEYS) add(key, payload[member]);
  add('suser', actorOf(payload['principal']));
  if (typeof payload['record_id'] === 'string') {
    fields.push('flexString1Label=recordId');
    add('flexString1', payload['record_id']);
  }
  let n = 0;
  const custom: readonly (readonly [string, unknown])[] = [
    ['org', org],
    ['workload', workload],
    ...LABELLED.map(([label, member]) => [label, payload[member]] as const),
  ];
  for (const [label, value] of custom) {
    if (typeof value !== 'string' || value === '' || n === 6) continue;
    n += 1;
    fields.push(`cs${n}Label=${label}`);
    add(`cs${n}`, value);
  }
  return `${head.join('|')}|${SEVERITIES[severity] ?? 0}|${fields.join(' ')}`;

  function add(key: string, value: unknown): void {
    const text = typeof value === 'number' ? String(value) : value;
    if (typeof text === 'string' && text !== '') fields.push(`${key}=${inExtension(text)}`);
  }
}

/** Who has changed something: the name of a key, the user of a program, else the id. */
function actorOf(principal: unknown): unknown {
  if (!isJsonObject(principal)) return undefined;
  return principal['name'] ?? principal['user'] ?? principal['id'];
}

function nameOf({ event_type: type, payload }: EventEnvelope): string {
  const decision = payload['decision'] ?? payload['operation'];
  return typeof decision === 'string' ? `${type} ${decision}` : type;
}

function inHead(text: string): string {
  return shownText(text, 'line').replaceAll(/[\\|]/g, '\\$&');
}

function inExtension(text: string): string {
  return text
    .slice(0, TEXT)
    .toWellFormed()
    .split(/\r\n|\n|\r/)
    .map((line) => shownText(line, 'line').replaceAll(/[\\=]/g, '\\$&'))
    .join('\\n');
}
