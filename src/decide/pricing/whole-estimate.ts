/*
 * What a call may cost in all (decisions 6.2, 6.3, 6.16): that of the dearest model that may answer it, of those that run inside of it, and of what is billed
 * beside tokens.
 */
import { statedCount } from '../../base/catalogue/holders.ts';
import type { NamedModel, NamedModels } from '../../base/catalogue/named-models.ts';
import { spelledValue } from '../../base/catalogue/spelling.ts';
import type { Dialect, Price } from '../../base/catalogue/types.ts';
import { type AskedCosts, askedUnits, sharedCost, sharedMost } from './asked.ts';
import { dearestCost, meter, plainCost } from './cost.ts';
import { assumedOutput, type Estimate, type EstimateOverrides, estimate } from './estimate.ts';
import { pictureTokens } from './picture-tokens.ts';

type Params = Readonly<Record<string, unknown>>;

/** A call, and the prices of all that it names. */
export interface EstimatedCall {
  readonly params: Params;
  readonly dialect: Dialect | undefined;
  readonly overrides: EstimateOverrides | undefined;
  /** Of its own model. */
  readonly price: Price;
  readonly named: NamedModels | undefined;
  /** Of another one that it names. */
  readonly priceOf: (model: string) => Price;
  /** `GW_PRICING_CACHED`; without it nothing is charged but tokens. */
  readonly cachedRates: boolean;
}

/** Pico-dollars: by the call's own words, and what is set aside. */
interface Costs {
  readonly estimated: bigint;
  readonly reserved: bigint;
}

/** A model that may answer: its tokens, and what is billed beside them at its price. */
interface Answering extends Costs {
  readonly units: AskedCosts | undefined;
}

/** Models that run inside of the call: those with a maximum of their own in all, those that share one each for itself. */
interface Inner extends Costs {
  readonly shared: readonly Costs[];
}

const NO_UNITS: AskedCosts = { alone: 0n, shared: [] };

/**
 * As {@link estimate}, of the whole call. Counts of tokens stay those of its own model; `costPico` and `reservePico` are of everything: an alternative has its own rates and
 * the maximum that stands with it, an inner model reads the prompt of the call and says what the call lets it say, or what is assumed of it.
 * @throws GatewayError `invalid_request` as {@link estimate} does
 */
export function estimateCall(call: EstimatedCall): Estimate {
  const { params, dialect, overrides, price, named, cachedRates } = call;
  const own = estimate(params, dialect, overrides, price, cachedRates);
  const units = cachedRates ? askedUnits(params, dialect, price) : undefined;
  if (named === undefined && units === undefined) return own;
  const answering = [
    { estimated: own.costPico, reserved: own.reservePico, units },
    ...(named?.alternatives ?? []).map(alternativeOf(call)),
  ];
  const inner = innerCosts(call, own.reservedIn);
  const most = mostShared(call);
  const total = (kind: keyof Costs): bigint => {
    let dearest = 0n;
    for (const one of answering) {
      const { alone, shared } = one.units ?? NO_UNITS;
      const sum = one[kind] + alone + sharedCost([...shared, ...inner.shared.map((each) => each[kind])], most);
      if (sum > dearest) dearest = sum;
    }
    return dearest + inner[kind];
  };
  return { ...own, costPico: total('estimated'), reservePico: total('reserved') };
}

function alternativeOf({ params, dialect, overrides, cachedRates, priceOf }: EstimatedCall): (named: NamedModel) => Answering {
  return ({ model, said }) => {
    const price = priceOf(model);
    // What stands with a model holds for it in place of what the call says: its own maximum, its own prompt.
    const asked = said === undefined ? params : { ...params, ...said };
    const { costPico, reservePico } = estimate(asked, dialect, overrides, price, cachedRates);
    return { estimated: costPico, reserved: reservePico, units: cachedRates ? askedUnits(asked, dialect, price) : undefined };
  };
}

function innerCosts({ named, priceOf, cachedRates }: EstimatedCall, tokensIn: number): Inner {
  let estimated = 0n;
  let reserved = 0n;
  const shared: Costs[] = [];
  for (const one of named?.inner ?? []) {
    const { times, free } = one.place;
    if (free) continue;
    const once = costOnce(one, priceOf(one.model), tokensIn, cachedRates);
    if (times.shared === undefined) {
      const count = BigInt(statedCount(one.said, times) ?? 1);
      estimated += once.estimated * count;
      reserved += once.reserved * count;
    } else shared.push(once);
  }
  return { estimated, reserved, shared };
}

function costOnce({ place, said = {} }: NamedModel, price: Price, tokensIn: number, cachedRates: boolean): Costs {
  const { picture } = place;
  if (picture === undefined) {
    const out = mostOf(said, place.most) ?? place.assumed ?? assumedOutput(price);
    return { estimated: plainCost(tokensIn, out, price), reserved: dearestCost(tokensIn, out, price, cachedRates) };
  }
  const out = pictureTokens(said, picture);
  const { costPico } = meter({ tokens_in: tokensIn, tokens_out: out, image_tokens_out: out }, price, cachedRates);
  return { estimated: costPico, reserved: dearestCost(tokensIn, out, price, cachedRates) };
}

function mostOf(said: Params, paths: NamedModel['place']['most']): number | undefined {
  let most: number | undefined;
  for (const path of paths) {
    const value = spelledValue(said, path);
    if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value > (most ?? -1)) most = value;
  }
  return most;
}

function mostShared({ params, dialect, named }: EstimatedCall): number | undefined {
  const places = [...(named?.inner ?? []).map(({ place }) => place), ...(dialect?.places.units ?? [])];
  return sharedMost(
    params,
    places.map(({ times }) => times),
  );
}
