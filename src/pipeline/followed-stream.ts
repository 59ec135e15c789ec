import type { DeltaRule } from '../base/catalogue/types.ts';
import { parseUsd } from '../base/lib/money.ts';
import { meter } from '../decide/pricing/meter.ts';
import { SeenUsage, type StreamWatch } from '../outbound/connectors/seen-usage.ts';
import { type CapReached, ofBudget, ofRequest } from './cap-reached.ts';
import type { Exchange } from './exchange.ts';
import { growIntent } from './intent.ts';
import type { Pipeline } from './stage.ts';

/** A stream's growth is stored when it is more than this part of what was stored before. */
const MARK_STEP = 8n;

/**
 * Follows what one call costs while it streams, so that one which does not come to its end is charged what was seen of it (decision 6.4). With
 * `GW_STREAM_STOP_AT_CAP` it is held against every cap, too, and ended where it would pass one.
 */
export class FollowedStream implements StreamWatch {
  readonly seen: SeenUsage;
  /** Set when the stream is to end. */
  reached: CapReached | undefined;
  readonly #exchange: Exchange;
  readonly #pipeline: Pipeline;
  readonly #ofRequest: bigint | undefined;
  readonly #mayStop: boolean;
  /** What the next start charges if the process ends now, pico-dollars. */
  #marked: bigint;

  constructor(exchange: Exchange, pipeline: Pipeline, rule: DeltaRule) {
    const { estimate, verdict, reservation } = exchange;
    this.#exchange = exchange;
    this.#pipeline = pipeline;
    this.#marked = reservation?.pico ?? 0n;
    this.#ofRequest = verdict?.effects.usd_max === undefined ? undefined : parseUsd(verdict.effects.usd_max);
    this.#mayStop = pipeline.settings.stopAtCap && (this.#ofRequest !== undefined || reservation?.capped === true);
    this.seen = new SeenUsage(rule, { tokensIn: estimate?.reservedIn ?? 0, outStated: estimate?.statedOut });
  }

  passes(): boolean {
    const { price, reservation } = this.#exchange;
    if (!this.#mayStop || price === undefined) return false;
    const { settings, budgets } = this.#pipeline;
    const cost = meter(this.seen.usage, price, settings.pricingCached).costPico;
    if (this.#ofRequest !== undefined && cost > this.#ofRequest) this.reached = ofRequest(cost, this.#ofRequest);
    const exceeded = reservation?.capped ? budgets.grow(reservation, cost) : undefined;
    if (exceeded) this.reached ??= ofBudget(cost, exceeded);
    if (this.reached) this.#tell(this.reached);
    else if (reservation?.capped) this.#mark(cost);
    return this.reached !== undefined;
  }

  /** By steps of an eighth, so that a stream which grows to a thousand times its estimate writes some sixty times. */
  #mark(cost: bigint): void {
    if (cost <= this.#marked + this.#marked / MARK_STEP) return;
    this.#marked = cost;
    growIntent(this.#exchange, this.seen.usage, this.#pipeline);
  }

  #tell({ reasonCode, attributes }: CapReached): void {
    const { recordId, orgId, workloadId } = this.#exchange;
    const about = { record_id: recordId, org_id: orgId, workload_id: workloadId, reason_code: reasonCode, ...attributes };
    this.#pipeline.log.warn(about, 'a stream is ended, because it would pass its cap');
  }
}

/** Undefined where nothing is to be followed: the call costs nothing, or its format does not show what it says. */
export function followStream(exchange: Exchange, pipeline: Pipeline): FollowedStream | undefined {
  const { operation, price } = exchange;
  const rule = operation?.dialect?.deltas;
  return rule !== undefined && price !== undefined ? new FollowedStream(exchange, pipeline, rule) : undefined;
}
