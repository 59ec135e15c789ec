import type { NamedModels } from '../../base/catalogue/named-models.ts';
import { planPrice } from '../../base/catalogue/prices/plan-price.ts';
import type { Catalogue, Operation, Price } from '../../base/catalogue/types.ts';
import { modelAsSeen } from '../../base/catalogue/usual-path.ts';
import { picoFromUsd } from '../../base/lib/money.ts';
import type { Pass, Usage } from '../../base/model/usage.ts';

/** A call as it was asked for, with what decides at which price its answer is charged. */
export interface AskedModel {
  readonly catalogue: Pick<Catalogue, 'price'>;
  readonly providerId: string;
  readonly operation: Operation | undefined;
  readonly model: string | undefined;
  /** Of that model. */
  readonly price: Price;
  /** Epoch milliseconds at which the call came. */
  readonly at: number;
  /** Models that it names beside its own. */
  readonly named?: NamedModels | undefined;
}

/** A serving variant that a name ends with, such as `:free`. */
const VARIANT = /^(?!ft:).*(:[a-z]+)$/;

/**
 * The price at which an answer is charged (decision 6.3): that of the model that it names, where that has one. The
 * operator's rates for the model asked for hold whatever snapshot or deployment answers, but not for another model that
 * the call allows.
 * @param answered undefined: the answer names none
 */
export function priceOfAnswer(asked: AskedModel, answered: string | undefined): Price {
  const { price, model, operation } = asked;
  if (answered === undefined || answered === model) return price;
  const isAlternative = asked.named !== undefined && isOneOf(asked.named.alternatives, answered, model);
  if (!isAlternative && (price.source === 'override' || (operation?.dialect?.echoIsFamily === true && price.source !== 'default')))
    return price;
  const name = operation === undefined ? answered : modelAsSeen(answered, operation.modelNames);
  const isOwn = !isAlternative && isSnapshotOf(answered, model);
  const found = (isOwn ? inVariant(asked, name) : undefined) ?? priceAt(asked, name);
  if (found.source !== 'default' || isAlternative) return found;
  return isOwn ? price : dearestOf(price, asked);
}

/** What a model costs in this call. */
function priceAt({ catalogue, providerId, operation, price, at }: AskedModel, model: string): Price {
  const listed = catalogue.price(providerId, model, at);
  return operation?.plan === true || price.plan === true ? planPrice(listed) : listed;
}

/** Of a name that nobody knows it may be any of the models that may answer: the dearest of them holds. */
function dearestOf(own: Price, asked: AskedModel): Price {
  const prices = (asked.named?.alternatives ?? []).map(({ model }) => priceAt(asked, model));
  return prices.reduce((dearest, one) => (weight(one) > weight(dearest) ? one : dearest), own);
}

function weight(price: Price): bigint {
  return picoFromUsd(price.in) + picoFromUsd(price.out);
}

/** What an answer is charged for, and at which prices. */
export interface Charged {
  readonly usage: Usage | undefined;
  /** The model that answered; the one asked for where the answer names none. */
  readonly model: string | undefined;
  readonly price: Price;
  readonly passPrices: readonly Price[] | undefined;
}

/** @param asked undefined: nothing is known of the call but its price and model */
export function chargedFor(
  asked: AskedModel | undefined,
  { usage, model: answered }: { readonly usage: Usage | undefined; readonly model: string | undefined },
  known: Pick<AskedModel, 'price' | 'model'>,
): Charged {
  const price = asked === undefined ? known.price : priceOfAnswer(asked, answered);
  const model = answered ?? known.model;
  if (usage?.passes === undefined || asked === undefined) return { usage, model, price, passPrices: undefined };
  const passes = namedPasses(asked, usage.passes);
  return { usage: { ...usage, passes }, model, price, passPrices: pricesOfPasses(asked, price, answered, passes) };
}

/**
 * The price of each pass: of its own model, of its tool's, or of the call. The model asked for may have passes of its
 * own where another one answered.
 */
function pricesOfPasses(asked: AskedModel, price: Price, answered: string | undefined, passes: readonly Pass[]): readonly Price[] {
  return passes.map(({ model }) => {
    if (model === undefined || model === answered) return price;
    return model === asked.model ? asked.price : priceAt(asked, model);
  });
}

/** Passes with the names of their models: a tool's stands in the request alone. */
function namedPasses({ named }: AskedModel, passes: readonly Pass[]): readonly Pass[] {
  return passes.map((pass) => {
    const tool =
      pass.model === undefined && pass.tool !== undefined ? named?.inner.find(({ said }) => said?.['type'] === pass.tool) : undefined;
    const model = pass.model ?? tool?.model;
    return model === pass.model ? pass : { ...pass, model };
  });
}

/**
 * Snapshots and publishers: `gpt-4o` may answer as `openai/gpt-4o-2024-08-06`. Of several names that fit the longest is
 * meant, and the call's own is no alternative.
 */
function isOneOf(alternatives: NamedModels['alternatives'], answered: string, own: string | undefined): boolean {
  const name = answered.toLowerCase();
  let longest = own !== undefined && name.includes(bareName(own)) ? bareName(own).length : 0;
  let found = false;
  for (const { model } of alternatives) {
    const bare = bareName(model);
    if (bare.length <= longest || !name.includes(bare)) continue;
    longest = bare.length;
    found = true;
  }
  return found;
}

/** Whether an answer names the model that was asked for, perhaps without its variant or with a date. */
function isSnapshotOf(answered: string, model: string | undefined): boolean {
  if (model === undefined) return false;
  const variant = VARIANT.exec(model)?.[1] ?? '';
  const [name, own] = [bareName(answered), bareName(model.slice(0, model.length - variant.length))];
  return own !== '' && (name.startsWith(own) || own.startsWith(name));
}

function bareName(model: string): string {
  return model.toLowerCase().split('/').at(-1) ?? '';
}

/** What was asked for in a variant is charged in it, also where the answer leaves the variant out. */
function inVariant(asked: AskedModel, answered: string): Price | undefined {
  const { model } = asked;
  const variant = model === undefined ? undefined : VARIANT.exec(model)?.[1];
  if (variant === undefined || answered.includes(':')) return undefined;
  const price = priceAt(asked, answered + variant);
  return price.source === 'default' ? undefined : price;
}
