import { namedModels } from '../../base/catalogue/named-models.ts';
import { writtenPath } from '../../base/catalogue/spelling.ts';
import type { FieldPlace, Operation } from '../../base/catalogue/types.ts';
import { modelAsSeen } from '../../base/catalogue/usual-path.ts';
import { jsonMember, setJsonMember } from '../../base/json/json-edit.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { isFixedHeader } from '../../base/lib/header-rules.ts';
import { canonicalHost } from '../../base/lib/host.ts';
import { type AiBody, readAiBody } from './body.ts';
import { actionMethod, isHeaderName, isHeaderValue } from './envelope-rules.ts';
import { rewriteForm } from './form.ts';
import { canonicalPath } from './path.ts';
import { replaceInPath, setQuery, switchStreamVerb } from './place-edit.ts';
import { BODY_MODEL, dottedValue, isDeploymentPlace, placesOfModel, readPlace, withoutVersion } from './places.ts';

/** What a request is before and after its mutations. */
export interface Mutable {
  /** Undefined when policy did not parse the body (`http.request`). */
  readonly body: AiBody | undefined;
  readonly method: string;
  readonly host: string;
  /** Canonical path with query. */
  readonly path: string;
  /** Flat name, value list. */
  readonly headers: readonly string[];
}

export interface MutationContext {
  readonly isAiHost: (host: string) => boolean;
  /** What the call means once method, host or path have changed. Absent: it means what it meant. */
  readonly operationFor?: (method: string, host: string, path: string) => Operation;
}

export interface AppliedChange {
  readonly key: string;
  /** Absent when there was no value. */
  readonly from?: unknown;
  readonly to: unknown;
}

export interface Mutated extends Mutable {
  /**
   * What is really different now, in order. Empty: a `downgrade` is reported as `allow` (policy.md, "Merging effects").
   */
  readonly changed: readonly AppliedChange[];
  /**
   * Keys of `action.params` that could not be applied because policy does not parse this request's body. The caller
   * decides what that means.
   */
  readonly unapplied: readonly string[];
}

/**
 * Applies the mutations of a verdict (specification, effect `mutations`; decisions 3.19, 8.4). `model` and `stream` are
 * rewritten in the place where the dialect keeps them; of a JSON body only the members that change are touched. A
 * changed body is read again as any body is, so that params and bytes cannot differ. Without a real change the request
 * comes back as it is.
 * @throws GatewayError `internal` when a mutation does not fit the request, so that it is not forwarded without it;
 * `invalid_target`; `ambiguous_body`
 */
export function applyMutations(
  request: Mutable,
  mutations: readonly { readonly key: string; readonly value: unknown }[],
  context: MutationContext,
): Mutated {
  const draft = new Draft(request, context);
  for (const { key, value } of mutations) draft.apply(key, value);
  return draft.finish();
}

const PARAMS = 'action.params.';
const HEADERS = 'action.headers.';

class Draft {
  readonly #request: Mutable;
  readonly #context: MutationContext;
  readonly #changed: AppliedChange[] = [];
  readonly #unapplied: string[] = [];
  #method: string;
  #host: string;
  #path: string;
  #headers: readonly string[];
  #text: string;
  readonly #fields = new Map<string, string>();

  constructor(request: Mutable, context: MutationContext) {
    this.#request = request;
    this.#context = context;
    this.#method = request.method;
    this.#host = request.host;
    this.#path = request.path;
    this.#headers = request.headers;
    this.#text = request.body?.text ?? '';
  }

  apply(key: string, value: unknown): void {
    if (key.startsWith(PARAMS)) this.#setParam(key, value);
    else if (key.startsWith(HEADERS)) this.#setHeader(key, value);
    else if (key === 'action.method') this.#setMethod(key, value);
    else if (key === 'action.target_host') this.#setHost(key, value);
    else if (key === 'action.target_path') this.#setPath(key, value);
    else throw misfit(key, 'is not mutable');
  }

  finish(): Mutated {
    const { body, path, host, method } = this.#request;
    const rest = { method: this.#method, host: this.#host, path: this.#path, headers: this.#headers };
    const result = { ...rest, changed: this.#changed, unapplied: this.#unapplied };
    if (body === undefined || this.#changed.length === 0) return { ...result, body };
    const bytes = this.#bytes(body);
    const moved = path !== this.#path || host !== this.#host || method !== this.#method;
    const operation = (moved ? this.#context.operationFor?.(this.#method, this.#host, this.#path) : undefined) ?? body.operation;
    if (bytes.length > 0 && body.kind === 'empty' && headerValue(this.#headers, 'content-type') === undefined) {
      result.headers = [...this.#headers, 'Content-Type', 'application/json'];
    }
    const contentType = headerValue(result.headers, 'content-type');
    const read = readAiBody({ operation, contentType, bytes, path: this.#path, partial: body.partial });
    this.#requireEffect(read);
    return { ...result, body: read };
  }

  /** Nothing goes out with a change that policy asked for and that is not there. */
  #requireEffect(body: AiBody): void {
    for (const { key, to } of this.#changed) {
      if (!key.startsWith(PARAMS)) continue;
      const now = dottedValue(body.params, key.slice(PARAMS.length));
      if (!sameValue(now, to) && !(body.form !== undefined && now === formText(to))) throw misfit(key, 'has no place in this request');
    }
  }

  #bytes(body: AiBody): Uint8Array {
    if (body.form !== undefined) return this.#fields.size === 0 ? body.bytes : rewriteForm(body.form, body.bytes, this.#fields);
    return this.#text === body.text ? body.bytes : new TextEncoder().encode(this.#text);
  }

  #note(key: string, from: unknown, to: unknown): void {
    this.#changed.push(from === undefined ? { key, to } : { key, from, to });
  }

  #setParam(key: string, value: unknown): void {
    const { body } = this.#request;
    const name = key.slice(PARAMS.length);
    if (body === undefined) {
      this.#unapplied.push(key);
      return;
    }
    // Of a body that nobody understands only a model in the path has a place; one that hides others beside it need not
    // be the one that is taken.
    const isHidden = body.operation.known
      ? name === 'model' && namedModels(body.operation, body.params)?.hidden === true
      : name !== 'model' || body.model === undefined;
    if (isHidden) {
      this.#unapplied.push(key);
      return;
    }
    if (name !== 'model' && name !== 'stream') {
      for (const written of writtenNames(name, body)) this.#setOne(`${PARAMS}${written}`, written, value, body);
      return;
    }
    const before = dottedValue(body.params, name);
    const asSeen = name === 'model' ? modelAsSeen(String(value), body.operation.modelNames) : value;
    if (isAlready(before, asSeen, body)) return;
    if (name === 'model') this.#setModel(key, value, body);
    else this.#setStream(key, value, body);
    this.#note(key, before, asSeen);
  }

  /** What an earlier rule wrote stands. */
  #setOne(key: string, name: string, value: unknown, body: AiBody): void {
    const before = dottedValue(body.params, name);
    if (isAlready(before, value, body) || this.#changed.some((change) => change.key === key)) return;
    this.#setMember(key, name, value, body);
    this.#note(key, before, value);
  }

  #setModel(key: string, value: unknown, body: AiBody): void {
    if (typeof value !== 'string' || value === '') throw misfit(key, 'needs a non-empty text');
    for (const place of this.#placesToSet(body)) this.#setPlace(key, place, value, body);
  }

  /**
   * Every place that names the model now, of an Azure deployment only the path; when none does, the first one that a
   * value can be put into.
   */
  #placesToSet({ operation: { dialect }, params }: AiBody): readonly FieldPlace[] {
    if (dialect === undefined) return [BODY_MODEL];
    const present = placesOfModel(dialect).filter((place) => typeof readPlace(place, params, this.#path) === 'string');
    const [first] = present;
    if (first === undefined) return [dialect.model.find((place) => place.in !== 'path') ?? BODY_MODEL];
    return isDeploymentPlace(first, this.#path) ? [first] : present;
  }

  #setPlace(key: string, place: FieldPlace, value: string, body: AiBody): void {
    if (place.in === 'path') this.#path = canonicalPath(replaceInPath(this.#path, place.pattern, value) ?? this.#path, true);
    else if (place.in === 'query') this.#path = setQuery(this.#path, place.name, value);
    else if (place.in === 'form') this.#setMember(key, place.field, value, body);
    else this.#setBodyModel(key, place.path, value, body);
  }

  #setBodyModel(key: string, name: string, value: string, body: AiBody): void {
    const written = body.kind === 'json' && !name.includes('.') ? jsonMember(this.#text, name) : undefined;
    // `params.model` of a model in the path was filled in by us: a body without one stays without.
    const filledIn =
      written === undefined && body.form === undefined && body.operation.dialect?.model.every((place) => place.in !== 'body');
    if (filledIn !== true) this.#setMember(key, name, inTheFormOf(written, value, body), body);
  }

  #setStream(key: string, value: unknown, body: AiBody): void {
    if (typeof value !== 'boolean') throw misfit(key, 'needs true or false');
    const place = body.operation.dialect?.stream;
    if (place?.in === 'path') {
      const path = switchStreamVerb(this.#path, place, value);
      if (path === undefined) throw misfit(key, 'has no place in this request');
      this.#path = path;
      if (place.verbs?.body !== undefined) this.#setMember(key, place.verbs.body, value, body);
    } else if (place?.in === 'query') this.#path = setQuery(this.#path, place.name, String(value));
    else this.#setMember(key, place === undefined ? 'stream' : place.in === 'form' ? place.field : place.path, value, body);
  }

  #setMember(key: string, name: string, value: unknown, body: AiBody): void {
    if (body.form !== undefined) {
      const text = formText(value);
      if (name.includes('.') || text === undefined) throw misfit(key, 'does not fit a form');
      this.#fields.set(name, text);
      return;
    }
    if (value === undefined) throw misfit(key, 'has no value');
    const text = setJsonMember(this.#text, name.split('.'), value);
    if (text === undefined) throw misfit(key, 'leads through a value that has no members');
    this.#text = text;
  }

  #setHeader(key: string, value: unknown): void {
    const name = key.slice(HEADERS.length);
    const lower = name.toLowerCase();
    if (!isHeaderName(name) || isFixedHeader(lower)) throw misfit(key, 'names a header that cannot be set');
    const text = typeof value === 'number' || typeof value === 'boolean' ? String(value) : value;
    if (typeof text !== 'string' || !isHeaderValue(text)) throw misfit(key, 'is no header value');
    const before = headerValue(this.#headers, lower);
    if (before === text) return;
    const headers: string[] = [];
    for (let i = 0; i + 1 < this.#headers.length; i += 2) {
      const field = this.#headers[i] ?? '';
      if (field.toLowerCase() !== lower) headers.push(field, this.#headers[i + 1] ?? '');
    }
    headers.push(name, text);
    this.#headers = headers;
    this.#note(key, before, text);
  }

  #setMethod(key: string, value: unknown): void {
    const method = typeof value === 'string' ? actionMethod(value) : undefined;
    if (method === undefined) throw misfit(key, 'is no method that can be forwarded');
    if (method === this.#method) return;
    this.#note(key, this.#method, method);
    this.#method = method;
  }

  #setHost(key: string, value: unknown): void {
    const host = typeof value === 'string' ? canonicalHost(value) : undefined;
    if (host === undefined) throw new GatewayError('invalid_target', `The mutation of ${key} is no host name.`);
    if (host === this.#host) return;
    this.#note(key, this.#host, host);
    this.#host = host;
  }

  #setPath(key: string, value: unknown): void {
    if (typeof value !== 'string' || value === '') throw misfit(key, 'needs a path');
    const path = canonicalPath(value, this.#context.isAiHost(this.#host));
    if (path === this.#path) return;
    this.#note(key, this.#path, path);
    this.#path = path;
  }
}

/** Values of a header joined by comma; undefined when there is none. */
function headerValue(headers: readonly string[], lowerName: string): string | undefined {
  let value: string | undefined;
  for (let i = 0; i + 1 < headers.length; i += 2) {
    if (headers[i]?.toLowerCase() === lowerName) value = value === undefined ? (headers[i + 1] ?? '') : `${value}, ${headers[i + 1] ?? ''}`;
  }
  return value;
}

/** A value as a form field holds it. */
function formText(value: unknown): string | undefined {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/**
 * Where a body has a member, in the spelling that it is written in. Of the output maximum that is every place where it
 * has one: the provider may honour any of them.
 */
function writtenNames(name: string, { operation: { dialect }, params }: AiBody): readonly string[] {
  const rule = dialect?.names ?? 'exact';
  const written = (path: string) => writtenPath(params, path.split('.'), rule).join('.');
  const own = written(name);
  const maxima = dialect?.maxTokens ?? [];
  if (!maxima.some((path) => written(path) === own)) return [own];
  const present = maxima.map(written).filter((path) => dottedValue(params, path) !== undefined);
  return present.length === 0 ? [own] : present;
}

function isAlready(before: unknown, value: unknown, { form }: AiBody): boolean {
  return sameValue(before, value) || (form !== undefined && typeof before === 'string' && before === String(value));
}

/** Google writes a model as `models/x` in a body, and beside a path that has its version without it. */
function inTheFormOf(written: unknown, model: string, { operation: { dialect } }: AiBody): string {
  if (typeof written !== 'string') return model;
  const name = dialect?.model[0]?.in === 'path' && !written.includes('@') ? withoutVersion(model) : model;
  return written.startsWith('models/') ? `models/${name}` : name;
}

/** Equal as JSON values; the order of members does not count. */
function sameValue(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null || Array.isArray(a) !== Array.isArray(b)) return false;
  const names = Object.keys(a);
  if (names.length !== Object.keys(b).length) return false;
  return names.every((name) => Object.hasOwn(b, name) && sameValue(Reflect.get(a, name), Reflect.get(b, name)));
}

function misfit(key: string, why: string): GatewayError {
  return new GatewayError('internal', `The mutation of ${key} ${why}.`);
}
