import type { SamplerConfig } from '../../../base/config/trace-settings.ts';
import { newSpanId, newTraceId, RANDOM, SAMPLED, type TraceParent } from '../../../base/lib/trace-context.ts';
import type { CallTrace, OwnSpans } from '../../../base/model/call-trace.ts';

/** The last so many hex digits of a trace id, which are random, as a number that a double holds exactly. */
const JUDGED_DIGITS = 13;
const JUDGED_VALUES = 16 ** JUDGED_DIGITS;

/** Gives calls their spans, and says which of them are sent. */
export class Tracer {
  readonly #sampler: SamplerConfig;

  constructor(sampler: SamplerConfig) {
    this.#sampler = sampler;
  }

  /** @param parent that the caller names, if it is valid @param state its `tracestate`, the same */
  begin(parent: TraceParent | undefined, state: string | undefined): CallTrace {
    const traceId = parent?.traceId ?? newTraceId();
    const sampled = this.#samples(traceId, parent);
    const own = spans(sampled, parent ? parent.flags & RANDOM : RANDOM, state);
    return { traceId, parentId: parent?.spanId, parentIsRemote: true, own };
  }

  /** A call on a WebSocket: inside of the span of the handshake, and sent where that is. */
  inside(handshake: CallTrace): CallTrace {
    const { traceId, own } = handshake;
    if (own === undefined) return handshake;
    return { traceId, parentId: own.server, parentIsRemote: false, own: spans(own.sampled, own.flags & RANDOM, own.state) };
  }

  #samples(traceId: string, parent: TraceParent | undefined): boolean {
    const { parentBased, ratio } = this.#sampler;
    if (parentBased && parent) return (parent.flags & SAMPLED) !== 0;
    return ratio >= 1 || Number.parseInt(traceId.slice(-JUDGED_DIGITS), 16) >= (1 - ratio) * JUDGED_VALUES;
  }
}

function spans(sampled: boolean, random: number, state: string | undefined): OwnSpans {
  return { server: newSpanId(), client: newSpanId(), sampled, flags: random | (sampled ? SAMPLED : 0), state };
}
