import type { DeltaRule } from '../../base/catalogue/dialect-rules.ts';
import { parseUsd } from '../../base/lib/money.ts';
import { type AskedModel, type Charged, chargedFor } from '../../decide/pricing/answered-price.ts';
import { meter } from '../../decide/pricing/cost.ts';
import { SeenUsage, type StreamWatch } from '../../outbound/connectors/seen-usage.ts';
import { meteringFrom } from '../../record/metering.ts';
import type { CapExceeded } from '../../services/money/allowance.ts';
import type { Pipeline } from '../parts/call-services.ts';
import { type CapReached, ofBudget, ofRequest } from '../parts/cap-reached.ts';
import type { ForwardedCall } from '../parts/parts.ts';
import { askedModel } from '../route/worth.ts';

/** A stream's growth is stored when it is more than this part of what was stored before. */
const MARK_STEP = 8n;

/** The call whose stream is followed. */
export type FollowedCall = Pick<ForwardedCall, 'arrival' | 'claims' | 'judgement' | 'route' | 'hold'>;

/**
 * Follows what one call costs while it streams, so that one which does not come to its end is charged what was seen of
 * it (decision 6.4). With `GW_STREAM_STOP_AT_CAP` it is held against every cap, too, and ended where it would pass one.
 */
export class FollowedStream implements StreamWatch {
  readonly seen: SeenUsage;
  readonly mayStop: boolean;
  /** Set when the stream is to end. */
  reached: CapReached | undefined;
  readonly #call: FollowedCall;
  readonly #pipeline: Pipeline;
  readonly #ofRequest: bigint | undefined;
  readonly #asked: AskedModel | undefined;
  /** What the next start charges if the process ends now, pico-dollars. */
  #marked: bigint;
  /** The allowance was asked and has not answered yet. */
  #grows = false;
  #refused: CapExceeded | undefined;

  constructor(call: FollowedCall, pipeline: Pipeline, rule: DeltaRule) {
    const { estimate } = call.route;
    const { grant } = call.hold;
    const { usd_max: usdMax } = call.judgement.verdict.effects;
    this.#call = call;
    this.#pipeline = pipeline;
    this.#asked = askedModel(call);
    this.#marked = BigInt(grant?.pico ?? 0);
    this.#ofRequest = usdMax === undefined ? undefined : parseUsd(usdMax);
    this.mayStop = pipeline.settings.stopAtCap && (this.#ofRequest !== undefined || grant?.capped === true);
    this.seen = new SeenUsage(rule, { tokensIn: estimate?.reservedIn ?? 0, outStated: estimate?.statedOut });
  }

  passes(): boolean {
    const charged = this.mayStop ? this.#charged() : undefined;
    if (charged === undefined) return false;
    const { settings } = this.#pipeline;
    const isCapped = this.#call.hold.grant?.capped === true;
    const cost = meter(charged.usage, charged.price, settings.pricingCached, charged.passPrices).costPico;
    if (this.#ofRequest !== undefined && cost > this.#ofRequest) this.reached = ofRequest(cost, this.#ofRequest);
    const exceeded = isCapped ? this.#grow(cost) : undefined;
    if (exceeded) this.reached ??= ofBudget(cost, exceeded);
    if (this.reached) this.#tell(this.reached);
    else if (isCapped) this.#mark(cost, charged);
    return this.reached !== undefined;
  }

  /**
   * Where the allowance has to ask elsewhere, the stream goes on meanwhile: it ends at the first event after a refusal
   * is known.
   */
  #grow(cost: bigint): CapExceeded | undefined {
    if (this.#refused !== undefined || this.#grows) return this.#refused;
    const grown = this.#pipeline.allowance.grow(this.#call.arrival.recordId, cost);
    if (!(grown instanceof Promise)) return grown;
    this.#grows = true;
    grown.then(
      (refused) => {
        this.#grows = false;
        this.#refused = refused;
      },
      (error: unknown) => {
        this.#grows = false;
        this.#pipeline.log.warn({ err: error, record_id: this.#call.arrival.recordId }, 'a stream could not be held against its caps');
      },
    );
    return undefined;
  }

  /** By steps of an eighth, so that a stream which grows to a thousand times its estimate writes some sixty times. */
  #mark(cost: bigint, charged: Charged): void {
    if (cost <= this.#marked + this.#marked / MARK_STEP) return;
    this.#marked = cost;
    this.#call.hold.grow(meteringFrom(charged, { reported: false, cachedRates: this.#pipeline.settings.pricingCached }));
  }

  /** At the price of the model that the stream has named by now. */
  #charged(): Charged | undefined {
    const { usage, model } = this.seen;
    const asked = this.#asked;
    return asked && chargedFor(asked, { usage, model }, asked);
  }

  #tell({ reasonCode, attributes }: CapReached): void {
    const { arrival, claims } = this.#call;
    const about = {
      record_id: arrival.recordId,
      org_id: claims.orgId,
      workload_id: claims.workloadId,
      reason_code: reasonCode,
      ...attributes,
    };
    this.#pipeline.log.warn(about, 'a stream is ended, because it would pass its cap');
  }
}

/** Undefined where nothing is to be followed: the call costs nothing, or its format does not show what it says. */
export function followStream(call: FollowedCall, pipeline: Pipeline): FollowedStream | undefined {
  const { operation, price } = call.route;
  const rule = operation?.dialect?.deltas;
  return rule !== undefined && price !== undefined ? new FollowedStream(call, pipeline, rule) : undefined;
}
