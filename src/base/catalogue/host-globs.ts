import { canonicalHost } from '../lib/host.ts';
import type { RowProblems } from './row-reader.ts';
import { readCsv } from './row-reader.ts';
import type { AiDomain } from './types.ts';

interface Glob<T> {
  /** What the host must end with: the part behind the last star or region. */
  readonly tail: string;
  readonly regex: RegExp;
  readonly value: T;
}

const REGION = '{region}';
const OPEN_PART = /\*|\{region\}/g;
const ANY = '[a-z0-9-]+';
/**
 * A region of AWS, as `us-gov-west-1`: no name of a service has this form, while in `name.s3.amazonaws.com` the name is
 * anybody's.
 */
const AWS_REGION = '[a-z]{2,4}(?:-[a-z]+)+-[0-9]{1,2}';

/**
 * Host patterns with open parts. A star stands for one label of a host or for a part of it, `{region}` for the name of
 * a region of AWS: `*-aiplatform.googleapis.com`, `vpce-*.bedrock-runtime.{region}.vpce.amazonaws.com`. They are found
 * by their last two labels, so that a host of another domain costs one look-up.
 */
export class HostGlobs<T> {
  readonly #byDomain = new Map<string, Glob<T>[]>();

  /** @param pattern in canonical form but for its open parts, of which none is in the last two labels */
  add(pattern: string, value: T): void {
    const tail = pattern.split(OPEN_PART).at(-1) ?? '';
    const source = pattern.replaceAll('.', '\\.').replaceAll('*', ANY).replaceAll(REGION, AWS_REGION);
    const glob = { tail, regex: new RegExp(`^${source}$`), value };
    const domain = domainOf(tail);
    const globs = this.#byDomain.get(domain);
    if (globs === undefined) this.#byDomain.set(domain, [glob]);
    else globs.push(glob);
  }

  /** The value of the first pattern that covers a host. @param host canonical */
  find(host: string): T | undefined {
    for (const glob of this.#byDomain.get(domainOf(host)) ?? []) {
      if (host.endsWith(glob.tail) && glob.regex.test(host)) return glob.value;
    }
    return undefined;
  }
}

/** Whether a pattern is a star and a domain, which covers every depth below it. */
export function isSuffixPattern(pattern: string): boolean {
  return pattern.startsWith('*.') && pattern.lastIndexOf('*') === 0 && !pattern.includes(REGION);
}

/** A pattern with stars alone, which cover more. */
export function asStars(pattern: string): string {
  return pattern.replaceAll(REGION, '*');
}

/** A host that a pattern stands for; empty for what is no pattern. */
export function sampleOf(pattern: string): string {
  const tail = pattern.split(OPEN_PART).at(-1) ?? '';
  const isPattern = tail !== pattern && /^[^.]*\.[^.]+\..+$/.test(tail);
  return isPattern ? pattern.replaceAll('*', 'x').replaceAll(REGION, 'xx-x-1') : '';
}

/** The last two labels. */
function domainOf(host: string): string {
  return host.slice(host.lastIndexOf('.', host.lastIndexOf('.') - 1) + 1);
}

const COLUMNS = ['domain', 'vendor', 'category', 'match'];

/**
 * Names of AI services, for discovery and labels (decision 3.8). An entry is one host, a domain with everything below
 * it, or a pattern with stars.
 */
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
