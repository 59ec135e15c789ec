import { type ErrorDetail, GatewayError } from '../../base/lib/gateway-error.ts';

const ID = /^[\x21-\x7e]{1,128}$/;

/** Reads a query as {@link BodyMembers} reads a body: a parameter that is unknown, or there twice, is a mistake, and all mistakes are told at once. */
export class QueryMembers {
  readonly #query: URLSearchParams;
  readonly #problems: ErrorDetail[] = [];

  constructor(query: URLSearchParams, known: readonly string[]) {
    this.#query = query;
    for (const name of new Set(query.keys())) {
      if (!known.includes(name)) this.problem(name, `is no parameter of this path, which takes ${known.join(', ')}`);
      else if (query.getAll(name).length > 1) this.problem(name, 'is there more than once');
    }
  }

  /** The value as it came; undefined when the query does not have it. */
  value(name: string): string | undefined {
    return this.#query.get(name) ?? undefined;
  }

  problem(path: string, message: string): void {
    this.#problems.push({ path, message });
  }

  id(name: string): string | undefined {
    const value = this.value(name);
    if (value === undefined || ID.test(value)) return value;
    this.problem(name, 'must be 1 to 128 visible ASCII characters');
    return undefined;
  }

  /** @throws GatewayError `invalid_request` that names every problem found so far */
  check(): void {
    const { length } = this.#problems;
    if (length > 0) throw new GatewayError('invalid_request', `The query has ${length} bad parameter(s).`, { details: this.#problems });
  }
}
