import { compileRegex, type LinearRegex } from '../../lib/regex.ts';
import { withIsoDates } from './iso-dates.ts';
import type { ListModel, ListProvider } from './list-shape.ts';
import { ModelMatcher, type NameTest, testOf } from './match-names.ts';
import type { ListHead } from './read-list.ts';

/** Which list it is. */
export interface ListIdentity extends ListHead {
  /** Of the text that it was read from, lower-case hex. */
  readonly sha256: string;
  readonly providers: number;
  readonly models: number;
}

/** What a name leads to: a model of a list, perhaps of one that its own list falls back on. */
export interface FoundModel {
  /** Id of the list that the model stands in. */
  readonly list: string;
  readonly model: ListModel;
}

interface MakerTest {
  readonly id: string;
  readonly test: NameTest;
}

/**
 * A price list that was read and holds no mistake, with the package's own way to find a model in it. Immutable; what a
 * provider's rules compile to is made when its first name is looked for.
 */
export class PriceList {
  readonly providers: readonly ListProvider[];
  readonly identity: ListIdentity;
  readonly #byId: ReadonlyMap<string, ListProvider>;
  readonly #matchers = new Map<string, ModelMatcher>();
  #makers: readonly MakerTest[] | undefined;
  #addresses: readonly { readonly id: string; readonly pattern: LinearRegex }[] | undefined;

  constructor(providers: readonly ListProvider[], head: ListHead, sha256: string) {
    this.providers = providers;
    this.#byId = new Map(providers.map((provider) => [provider.id, provider]));
    const models = providers.reduce((sum, provider) => sum + provider.models.length, 0);
    this.identity = Object.freeze({ version: head.version, date: head.date, sha256, providers: providers.length, models });
  }

  has(id: string): boolean {
    return this.#byId.has(id);
  }

  /** The lists that one falls back on. */
  fallbacksOf(id: string): readonly string[] {
    return this.#byId.get(id)?.fallback_model_providers ?? [];
  }

  /** Models of a list and of those that it falls back on, the own ones first. */
  *models(id: string): Generator<FoundModel> {
    for (const list of this.#withFallbacks(id)) for (const model of list.models) yield { list: list.id, model };
  }

  /**
   * The first model of a provider's list with rules that a name fits, else the first of those that the list falls back
   * on; a name with dates of eight digits is then tried once more with dates as `2025-05-14`.
   * @param name in lower case, without space around it
   */
  find(id: string, name: string): FoundModel | undefined {
    const lists = this.#withFallbacks(id);
    const found = this.#findIn(lists, name);
    if (found !== undefined) return found;
    const dated = withIsoDates(name);
    return dated === name ? undefined : this.#findIn(lists, dated);
  }

  /** The first list, in their order, that says it is of the maker of a model with such a name. */
  maker(name: string): string | undefined {
    this.#makers ??= this.providers.flatMap(({ id, model_match: rule }) => (rule === undefined ? [] : [{ id, test: testOf(rule) }]));
    return this.#makers.find(({ test }) => test(name))?.id;
  }

  /** The list of the provider that has its API at an address, such as `https://api.openai.com/v1`. */
  atAddress(url: string): string | undefined {
    this.#addresses ??= this.providers.map(({ id, api_pattern: pattern }) => ({ id, pattern: compileRegex(`^(?:${pattern})`) }));
    return this.#addresses.find(({ pattern }) => pattern.test(url))?.id;
  }

  #findIn(lists: readonly ListProvider[], name: string): FoundModel | undefined {
    for (const list of lists) {
      const index = this.#matcher(list).find(name);
      const model = index === undefined ? undefined : list.models[index];
      if (model !== undefined) return { list: list.id, model };
    }
    return undefined;
  }

  #matcher({ id, models }: ListProvider): ModelMatcher {
    let matcher = this.#matchers.get(id);
    if (matcher === undefined) {
      matcher = new ModelMatcher(models);
      this.#matchers.set(id, matcher);
    }
    return matcher;
  }

  #withFallbacks(id: string): readonly ListProvider[] {
    const own = this.#byId.get(id);
    if (own === undefined) return [];
    return [own, ...(own.fallback_model_providers ?? []).flatMap((fallback) => this.#byId.get(fallback) ?? [])];
  }
}
