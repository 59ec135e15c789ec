import { canonicalHost } from '../lib/host.ts';
import { readCsv } from './csv.ts';
import { HostGlobs, sampleOf } from './host-globs.ts';
import type { RowProblems } from './row-reader.ts';
import type { AiDomain } from './types.ts';

const COLUMNS = ['domain', 'vendor', 'category', 'match'];

/** Names of AI services, for discovery and labels (decision 3.8). An entry is one host, a domain with everything below it, or a pattern with stars. */
export class AiDomains {
  readonly #exact = new Map<string, AiDomain>();
  readonly #suffixes = new Map<string, AiDomain>();
  readonly #globs = new HostGlobs<AiDomain>();
  readonly all: (AiDomain & { readonly match: string })[] = [];

  static parse(text: string, problems: RowProblems): AiDomains {
    const domains = new AiDomains();
    for (const { line, cells } of readCsv(text, COLUMNS, problems)) {
      const [domain = '', vendor = '', category = '', match = ''] = cells;
      const sample = match === 'glob' ? sampleOf(domain) : domain;
      if (canonicalHost(sample) !== sample || vendor === '' || category === '') {
        problems.add(domain, 'needs a canonical host, a vendor and a category', { line, column: 1 });
      } else domains.#add(Object.freeze({ domain, vendor, category }), match, line, problems);
    }
    return domains;
  }

  /** The longest entry that covers the canonical host: itself, then patterns, then ever shorter domains. */
  find(host: string): AiDomain | undefined {
    const own = this.#exact.get(host) ?? this.#suffixes.get(host);
    if (own !== undefined) return own;
    const matched = this.#globs.find(host);
    if (matched !== undefined) return matched;
    for (let dot = host.indexOf('.'); dot !== -1; dot = host.indexOf('.', dot + 1)) {
      const found = this.#suffixes.get(host.slice(dot + 1));
      if (found !== undefined) return found;
    }
    return undefined;
  }

  #add(entry: AiDomain, match: string, line: number, problems: RowProblems): void {
    this.all.push(Object.freeze({ ...entry, match }));
    if (match === 'glob') {
      this.#globs.add(entry.domain, entry);
      return;
    }
    const table = match === 'exact' ? this.#exact : match === 'suffix' ? this.#suffixes : undefined;
    if (table === undefined) problems.add(entry.domain, 'match must be exact, suffix or glob', { line, column: 1 });
    else if (table.has(entry.domain)) problems.add(entry.domain, 'stands twice', { line, column: 1 });
    else table.set(entry.domain, entry);
  }
}
