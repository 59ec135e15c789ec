import type { DurableEvent, DurableName } from '../../../base/events/destination.ts';
import { timestamp } from '../../../base/lib/clock.ts';
import { sha256Hex } from '../../../base/lib/sha256.ts';
import type { ExecutionRecord } from '../../../base/model/execution-record.ts';
import type { ExportEventName } from '../../../base/model/export-destination.ts';
import type { ExportedEvent } from '../../../outbound/destinations/event-envelope.ts';

/** What durable events are called where they are exported; those that are not are for people. */
export const EXPORTED: Readonly<Partial<Record<DurableName, ExportEventName>>> = {
  approval: 'approval',
  quarantine: 'quarantine',
  riskAlert: 'risk_alert',
  audit: 'audit',
};

/** A durable event in its envelope (specification, "Events"); undefined for one that is not exported. */
export function exportedEvent(durable: DurableEvent): ExportedEvent | undefined {
  const type = EXPORTED[durable.name];
  if (type === undefined || durable.name === 'budgetAlert') return undefined;
  const { name, event } = durable;
  const payload = name === 'approval' ? { ...event, decision: event.status } : event;
  return {
    id: eventId(durable.id),
    envelope: {
      event_type: type,
      event_time: timestamp(durable.at),
      org_id: event.org_id ?? '',
      workload_id: 'workload_id' in event ? event.workload_id : '',
      payload: payload as unknown as Readonly<Record<string, unknown>>,
    },
  };
}

/** A record in its envelope. @param text its canonical text */
export function exportedRecord(text: string): ExportedEvent {
  // What is stored was written by this program and has not changed since.
  const record = JSON.parse(text) as ExecutionRecord;
  return {
    id: eventId(`record ${record.record_id}`),
    envelope: {
      event_type: 'execution',
      event_time: record.completed_at,
      org_id: record.org_id,
      workload_id: record.workload_id,
      payload: record as unknown as Readonly<Record<string, unknown>>,
    },
  };
}

/** An event that says that events arrive. */
export function testEvent(id: string, orgId: string, epochMs: number): ExportedEvent {
  return {
    id: eventId(`test ${id}`),
    envelope: { event_type: 'test', event_time: timestamp(epochMs), org_id: orgId, workload_id: '', payload: { test: true } },
  };
}

/** The same at every try and every start. It has no full stop, which would end it in what is signed. */
function eventId(of: string): string {
  return `evt_${sha256Hex(of).slice(0, 32)}`;
}
