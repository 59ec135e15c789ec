import { type ErrorDetail, GatewayError } from '../../base/lib/gateway-error.ts';

const ID = /^[\x21-\x7e]{1,128}$/;
const MAX_TEXT = 256;

/**
 * Reads the members of one JSON body and collects everything that is wrong with it, so that a caller is told of all mistakes at once (decision 8.1). Members
 * are own properties; a member that nobody reads is a mistake (decision 8.4).
 */
export class BodyMembers {
  readonly #members: Readonly<Record<string, unknown>>;
  readonly #prefix: string;
  readonly #problems: ErrorDetail[];
  readonly #isObject: boolean;

  constructor(body: unknown, known: readonly string[], prefix = '', problems: ErrorDetail[] = []) {
    this.#prefix = prefix;
    this.#problems = problems;
    this.#members = typeof body === 'object' && body !== null && !Array.isArray(body) ? (body as Record<string, unknown>) : {};
    this.#isObject = this.#members === body;
    if (!this.#isObject) this.problem('', 'must be an object');
    for (const name of Object.keys(this.#members)) if (!known.includes(name)) this.problem(name, 'is not a member of this body');
  }

  /** The value as it came; undefined when the body does not have it. */
  value(name: string): unknown {
    return Object.hasOwn(this.#members, name) ? this.#members[name] : undefined;
  }

  problem(name: string, message: string): void {
    const path = name === '' ? this.#prefix.replace(/\.$/, '') : this.#prefix + name;
    this.#problems.push({ path, message });
  }

  /** The members of a nested object; its mistakes are reported with this body's. */
  nested(name: string, known: readonly string[]): BodyMembers | undefined {
    const value = this.value(name);
    return value === undefined ? undefined : new BodyMembers(value, known, `${this.#prefix}${name}.`, this.#problems);
  }

  id(name: string): string | undefined {
    const value = this.value(name);
    if (value === undefined) return undefined;
    if (typeof value === 'string' && ID.test(value)) return value;
    this.problem(name, 'must be 1 to 128 visible ASCII characters');
    return undefined;
  }

  requiredId(name: string): string {
    if (this.value(name) === undefined) this.problem(name, 'is required: 1 to 128 visible ASCII characters');
    return this.id(name) ?? '';
  }

  text(name: string, maxLength = MAX_TEXT): string | undefined {
    const value = this.value(name);
    if (value === undefined) return undefined;
    if (typeof value === 'string' && value.length <= maxLength && value.isWellFormed()) return value;
    this.problem(name, `must be text of at most ${maxLength} characters`);
    return undefined;
  }

  /** One of the words of `allowed`. */
  choice<const T extends string>(name: string, allowed: readonly T[]): T | undefined {
    const value = this.value(name);
    if (value === undefined) return undefined;
    const found = allowed.find((one) => one === value);
    if (found === undefined) this.problem(name, `must be one of ${allowed.join(', ')}`);
    return found;
  }

  /** A finite number greater than 0. */
  positive(name: string): number | undefined {
    const value = this.value(name);
    if (typeof value === 'number' && Number.isFinite(value) && value > 0) return value;
    this.problem(name, 'must be a number greater than 0');
    return undefined;
  }

  integer(name: string, min: number, max: number): number | undefined {
    const value = this.value(name);
    if (value === undefined) return undefined;
    if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return value;
    this.problem(name, `must be a whole number from ${min} to ${max}`);
    return undefined;
  }

  /** @throws GatewayError `invalid_request` that names every problem found so far; `what` as in "The workload" */
  check(what: string): void {
    if (this.#problems.length === 0) return;
    if (!this.#isObject)
      throw new GatewayError('invalid_request', `${what} must be a JSON object.`, { details: this.#problems.slice(0, 1) });
    throw new GatewayError('invalid_request', `${what} has ${this.#problems.length} bad member(s).`, { details: this.#problems });
  }
}
