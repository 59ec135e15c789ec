import type { Config } from '../base/config/config.ts';
import type { Clock } from '../base/lib/clock.ts';
import type { Logger } from '../base/lib/log.ts';
import { packageVersion } from '../base/lib/package-root.ts';
import { envelopeOf } from '../outbound/destinations/otlp-sender.ts';
import type { WayOut } from '../outbound/destinations/way-out.ts';
import { TraceExport } from '../services/traces/trace-export.ts';
import { Tracer } from '../services/traces/tracer.ts';

/** Who gives calls their spans, and who sends them. */
export interface Traces {
  readonly tracer: Tracer;
  readonly exporter: TraceExport;
}

/** Undefined where no traces are sent. */
export function openTraces(
  { traces, nodeId }: Config,
  ground: { readonly clock: Clock; readonly log: Logger; readonly door: WayOut },
): Traces | undefined {
  if (traces === undefined) return undefined;
  const version = packageVersion();
  const resource = { 'service.version': version, 'service.instance.id': nodeId, ...traces.resource };
  const envelope = envelopeOf(resource, { name: 'ai-request-gateway', version });
  return { tracer: new Tracer(traces.sampler), exporter: new TraceExport({ ...ground, receiver: traces, envelope }) };
}
