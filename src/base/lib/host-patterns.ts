import { canonicalHost } from './host.ts';

/**
 * A set of hosts: `example.com` is that host alone, `*.example.com` every name below it (not the name itself), `*` every host. Patterns are folded as
 * hosts are (decision 3.17).
 */
export class HostPatterns {
  static readonly none = new HostPatterns(new Set(), new Set(), false);

  readonly #exact: ReadonlySet<string>;
  readonly #suffixes: ReadonlySet<string>;
  readonly #all: boolean;

  private constructor(exact: ReadonlySet<string>, suffixes: ReadonlySet<string>, all: boolean) {
    this.#exact = exact;
    this.#suffixes = suffixes;
    this.#all = all;
  }

  /** @throws RangeError naming the first pattern that is none */
  static parse(patterns: Iterable<string>): HostPatterns {
    const exact = new Set<string>();
    const suffixes = new Set<string>();
    let all = false;
    for (const pattern of patterns) {
      const below = pattern.startsWith('*.');
      const host = pattern === '*' ? '*' : canonicalHost(below ? pattern.slice(2) : pattern);
      if (host === undefined) throw new RangeError(`"${pattern}" is neither a host nor a pattern such as *.example.com`);
      if (host === '*') all = true;
      else (below ? suffixes : exact).add(host);
    }
    return new HostPatterns(exact, suffixes, all);
  }

  get isEmpty(): boolean {
    return !this.#all && this.#exact.size === 0 && this.#suffixes.size === 0;
  }

  /** @param host canonical */
  has(host: string): boolean {
    if (this.#all || this.#exact.has(host)) return true;
    if (this.#suffixes.size === 0) return false;
    for (let dot = host.indexOf('.'); dot !== -1; dot = host.indexOf('.', dot + 1)) {
      if (this.#suffixes.has(host.slice(dot + 1))) return true;
    }
    return false;
  }
}
