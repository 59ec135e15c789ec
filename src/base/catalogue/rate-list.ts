import type { ListedPrice, Price } from './types.ts';

/** Rates of models that hold whoever serves them. */
export const ANY_PROVIDER = '*';

/** Rates from a moment on, and those that were in force before. */
interface Listed {
  readonly from: number;
  readonly price: Price;
  readonly earlier: Listed | undefined;
}

interface Pattern {
  readonly provider: string;
  readonly before: string;
  readonly after: string;
  listed: Listed | undefined;
}

/**
 * Rates by provider, model or pattern, and day. A name wins over every pattern, a row of the provider over one for all, an earlier pattern over a later one.
 */
export class RateList {
  readonly #byProvider = new Map<string, Map<string, Listed>>();
  readonly #patterns = new Map<string, Pattern>();

  /**
   * @param model lower case; with one `*` it is a pattern
   * @param from epoch milliseconds from which the rates hold
   * @returns false when the list has rates for this from the same moment on
   */
  add(provider: string, model: string, price: Price, from: number): boolean {
    const star = model.indexOf('*');
    if (star !== -1) return this.#addPattern(provider, model, star, price, from);
    let models = this.#byProvider.get(provider);
    if (models === undefined) {
      models = new Map();
      this.#byProvider.set(provider, models);
    }
    const listed = inserted(models.get(model), price, from);
    if (listed !== undefined) models.set(model, listed);
    return listed !== undefined;
  }

  /** @param model lower case */
  find(provider: string, model: string, at: number): Price | undefined {
    return (
      inForce(this.#byProvider.get(provider)?.get(model), at) ??
      inForce(this.#byProvider.get(ANY_PROVIDER)?.get(model), at) ??
      (this.#patterns.size === 0 ? undefined : (this.#matching(provider, model, at) ?? this.#matching(ANY_PROVIDER, model, at)))
    );
  }

  /** All rates in force at a moment. */
  *list(at: number): Generator<ListedPrice> {
    for (const [provider, models] of this.#byProvider) {
      for (const [model, listed] of models) {
        const price = inForce(listed, at);
        if (price !== undefined) yield { provider, model, price };
      }
    }
    for (const { provider, before, after, listed } of this.#patterns.values()) {
      const price = inForce(listed, at);
      if (price !== undefined) yield { provider, model: `${before}*${after}`, price };
    }
  }

  #addPattern(provider: string, model: string, star: number, price: Price, from: number): boolean {
    const key = `${provider}\n${model}`;
    const pattern = this.#patterns.get(key) ?? {
      provider,
      before: model.slice(0, star),
      after: model.slice(star + 1),
      listed: undefined,
    };
    const listed = inserted(pattern.listed, price, from);
    if (listed === undefined) return false;
    pattern.listed = listed;
    this.#patterns.set(key, pattern);
    return true;
  }

  #matching(provider: string, model: string, at: number): Price | undefined {
    for (const pattern of this.#patterns.values()) {
      const { before, after } = pattern;
      if (pattern.provider !== provider || model.length < before.length + after.length) continue;
      const price = model.startsWith(before) && model.endsWith(after) ? inForce(pattern.listed, at) : undefined;
      if (price !== undefined) return price;
    }
    return undefined;
  }
}

/** The chain with the new rates at their place; undefined when it has some from that moment. */
function inserted(chain: Listed | undefined, price: Price, from: number): Listed | undefined {
  if (chain === undefined || from > chain.from) return { from, price, earlier: chain };
  if (from === chain.from) return undefined;
  const earlier = inserted(chain.earlier, price, from);
  return earlier === undefined ? undefined : { ...chain, earlier };
}

function inForce(chain: Listed | undefined, at: number): Price | undefined {
  let listed = chain;
  while (listed !== undefined && at < listed.from) listed = listed.earlier;
  return listed?.price;
}
