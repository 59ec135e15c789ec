import { shownJson, shownText } from '../../base/lib/shown-text.ts';
import type { SyslogFormat } from '../../base/model/export-destination.ts';
import { cefLine } from './cef-line.ts';
import type { EventEnvelope, ExportedEvent } from './event-envelope.ts';

/** Log audit (RFC 5424 §6.2.1). */
const FACILITY = 13;
/** The example number of RFC 5612, which has no owner. */
const SD_ID = 'gw@32473';
const SD_VALUE = 256;
const KEY_FIELDS = ['record_id', 'record_hash', 'decision', 'approval_id', 'quarantine_id', 'audit_id'] as const;
/** Members of a payload that are dropped last: by these what is cut can be looked up. */
const LOOKED_UP_BY: ReadonlySet<string> = new Set<string>([...KEY_FIELDS, 'dropped']);
const APP = 'ai-request-gateway';
/** Structured data and message in each form; `shown`: the envelope with as much of its payload as fits. */
const PARTS: Readonly<Record<SyslogFormat, (event: ExportedEvent, shown: EventEnvelope) => string>> = {
  rfc5424: (event, shown) => `${structured(event)} ${shownJson(JSON.stringify(shown))}`,
  cef: ({ id, envelope }, shown) => `- ${cefLine({ id, envelope: shown }, severityOf(envelope))}`,
};

/** Severities of RFC 5424: 1 alert, 3 error, 4 warning, 5 notice, 6 informational. */
export function severityOf({ event_type: type, payload }: EventEnvelope): number {
  if (type === 'risk_alert') return 1;
  if (type === 'quarantine') return 4;
  if (type !== 'execution') return 5;
  return payload['decision'] === 'allow' ? 6 : payload['decision'] === 'error' ? 3 : 5;
}

/**
 * One message of RFC 5424: the envelope as JSON (without a byte order mark, which receivers would keep) and its key
 * fields as structured data.
 * @param most bytes of the whole; the largest members of the payload are dropped until it fits, and `dropped` names
 * them
 */
export function syslogMessage(event: ExportedEvent, host: string, format: SyslogFormat, most: number): Buffer {
  const { envelope } = event;
  const priority = FACILITY * 8 + severityOf(envelope);
  const head = `<${priority}>1 ${envelope.event_time} ${printable(host, 255)} ${APP} - ${printable(envelope.event_type, 32)}`;
  const render = (payload: EventEnvelope['payload']): Buffer => Buffer.from(`${head} ${PARTS[format](event, { ...envelope, payload })}`);
  let payload = envelope.payload;
  let message = render(payload);
  while (message.length > most) {
    const next = withoutLargest(payload);
    if (next === undefined) return cutBytes(message, most);
    payload = next;
    message = render(payload);
  }
  return message;
}

function structured({ id, envelope }: ExportedEvent): string {
  const { event_type: type, org_id: org, workload_id: workload, payload } = envelope;
  const fields: Record<string, unknown> = { event_id: id, event_type: type, org_id: org, workload_id: workload };
  for (const name of KEY_FIELDS) fields[name] = payload[name];
  const given = Object.entries(fields).filter((field): field is [string, string] => typeof field[1] === 'string' && field[1] !== '');
  return `[${SD_ID}${given.map(([name, value]) => ` ${name}="${escaped(value)}"`).join('')}]`;
}

function escaped(value: string): string {
  return shownText(value.slice(0, SD_VALUE).toWellFormed(), 'line').replaceAll(/["\\\]]/g, '\\$&');
}

function printable(text: string, length: number): string {
  const shown = text.replaceAll(/[^\x21-\x7e]/g, '_').slice(0, length);
  return shown === '' ? '-' : shown;
}

function withoutLargest(payload: EventEnvelope['payload']): EventEnvelope['payload'] | undefined {
  let largest: string | undefined;
  let most = 0;
  for (const [name, value] of Object.entries(payload)) {
    const size = LOOKED_UP_BY.has(name) ? 0 : (JSON.stringify(value)?.length ?? 0) + name.length;
    if (size > most) [largest, most] = [name, size];
  }
  if (largest === undefined) return undefined;
  const { [largest]: _gone, dropped, ...rest } = payload;
  const names = Array.isArray(dropped) ? (dropped as readonly string[]) : [];
  return { ...rest, dropped: names.length < 20 ? [...names, largest.slice(0, 40)] : names };
}

/** Whole characters of UTF-8. */
function cutBytes(message: Buffer, most: number): Buffer {
  let end = most;
  while (end > 0 && ((message[end] ?? 0) & 0xc0) === 0x80) end--;
  return message.subarray(0, end);
}
