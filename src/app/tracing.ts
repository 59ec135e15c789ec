import type { Config } from '../base/config/config.ts';
import type { Clock } from '../base/lib/clock.ts';
import type { Logger } from '../base/lib/log.ts';
import { packageVersion } from '../base/lib/package-root.ts';
import { envelopeOf } from '../outbound/destinations/otlp-sender.ts';
import { SideDoor } from '../outbound/net/side-door.ts';
import type { RawWays, Upstream } from '../outbound/net/upstream.ts';
import { TraceExport } from '../services/sending/traces/trace-export.ts';
import { Tracer } from '../services/sending/traces/tracer.ts';

/** Who gives calls their spans, and who sends them. */
export interface Traces {
  readonly tracer: Tracer;
  readonly exporter: TraceExport;
  /** Sends what waits. */
  close(): Promise<void>;
}

/**
 * Undefined where no traces are sent. They have connections of their own, which are there when those of calls have been
 * cut.
 */
export function openTraces(
  { traces, nodeId }: Config,
  { clock, log, openUpstream }: { readonly clock: Clock; readonly log: Logger; readonly openUpstream: () => Upstream & RawWays },
): Traces | undefined {
  if (traces === undefined) return undefined;
  const version = packageVersion();
  const resource = { 'service.version': version, 'service.instance.id': nodeId, ...traces.resource };
  const envelope = envelopeOf(resource, { name: 'ai-request-gateway', version });
  const upstream = openUpstream();
  const door = new SideDoor(upstream, clock);
  const exporter = new TraceExport({ clock, log, door, receiver: traces, envelope });
  const close = async (): Promise<void> => {
    await exporter.close();
    door.close();
    await upstream.close();
  };
  return { tracer: new Tracer(traces.sampler), exporter, close };
}
