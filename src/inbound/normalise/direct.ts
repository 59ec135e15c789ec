import { isJsonObject, type JsonObject } from '../../base/json/json-object.ts';
import { type JsonDoubt, parseSafeJson, sizeInMemory } from '../../base/json/safe-json.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { isFixedHeader } from '../../base/lib/header-rules.ts';
import { canonicalHost, parseAuthority } from '../../base/lib/host.ts';
import { holdsOwnToken } from '../../base/lib/own-tokens.ts';
import { isWellFormed } from '../../base/lib/text.ts';
import { ACTION_REQUEST_SCHEMA, type Action, type ActionRequest, isActionType } from '../../base/model/action-request.ts';
import { actionMethod, EnvelopeProblems, isHeaderName, isHeaderValue, OWN_TOKEN_RULE } from './envelope-rules.ts';
import { emptyMap, type Member, type Members, readEnvelope } from './envelope-shape.ts';
import { canonicalPath } from './path.ts';

/** A validated call of the structured API. */
export interface DirectRequest {
  readonly request: ActionRequest;
  /** 443 unless `action.target` says otherwise. */
  readonly port: number;
  readonly tls: boolean;
  /** What the request takes in memory, bytes, rounded up. */
  readonly size: number;
}

export interface DirectOptions {
  /** Makes the `request_id` of a request that has none. */
  readonly newRequestId: () => string;
  /** Whether decision 3.18 holds for the path of this (canonical) host in a call of this org. */
  readonly isAiHost: (host: string, orgId: string) => boolean;
}

/**
 * A structured call that is valid but can be read in two ways: it is refused with a record (decisions 3.19, 7.3), for
 * which the last reading serves.
 */
export class AmbiguousActionRequest extends GatewayError {
  readonly reading: DirectRequest;

  constructor(message: string, path: string, reading: DirectRequest) {
    super('ambiguous_body', message, { details: [{ path, message }] });
    this.reading = reading;
  }
}

/**
 * Of `target_path` and of `target`: longer than any provider's path, shorter than any server's limit of a request line.
 */
const MAX_TARGET = 8_192;
const MAX_HEADERS = 100;
const MAX_HEADER_VALUE = 16_384;
const TARGET_URL = /^(https?):\/\/([^/?#]*)([^#]*)$/i;

/**
 * Parses and validates the body of `POST /v1/actions:execute` (specification, "ActionRequest"; decisions 3.19, 4.7,
 * 5.3, 7.6, 8.4).
 * @throws GatewayError `invalid_request` with one detail per bad member, `body_too_deep`; {@link
 * AmbiguousActionRequest}
 */
export function parseActionRequest(bytes: Uint8Array, options: DirectOptions): DirectRequest {
  const json = parseSafeJson(bytes, { malformed: 'invalid_request', chain: ['action', 'params'], exactIntegers: true });
  const { value, text, doubt } = json;
  if (!isJsonObject(value))
    throw new GatewayError('invalid_request', 'The body is not a JSON object.', { details: [{ path: '', message: 'must be an object' }] });
  const problems = new EnvelopeProblems();
  if (/\\u[dD][89a-fA-F]/.test(text)) findIllFormed(value, '', problems);
  const envelope = readEnvelope(value, problems);
  const action =
    envelope.action === undefined
      ? undefined
      : readAction(envelope.action, (host) => options.isAiHost(host, envelope.rest.org_id), problems);
  if (problems.found || action === undefined) {
    throw new GatewayError('invalid_request', 'The action request is not valid.', { details: problems.details });
  }
  const request = { ...envelope.rest, schema: ACTION_REQUEST_SCHEMA, action: action.action } as const;
  const reading = {
    request: { ...request, request_id: envelope.requestId ?? options.newRequestId() },
    port: action.port,
    tls: action.tls,
    size: sizeInMemory(json, bytes.length),
  };
  if (doubt !== undefined) throw ambiguous(doubt, reading);
  return reading;
}

function ambiguous(doubt: JsonDoubt, reading: DirectRequest): AmbiguousActionRequest {
  return new AmbiguousActionRequest(doubt.message, doubt.path, reading);
}

/** For the org of the call. */
type IsAiHost = (host: string) => boolean;

interface ActionRead {
  readonly action: Action;
  readonly port: number;
  readonly tls: boolean;
}

function readAction(map: Members, isAiHost: IsAiHost, problems: EnvelopeProblems): ActionRead | undefined {
  const type = requiredText(map, 'type', problems);
  if (type !== undefined && !isActionType(type)) {
    problems.add('action.type', 'must be lower-case words joined by dots, such as ai.infer');
  }
  const methodText = requiredText(map, 'method', problems);
  const method = methodText === undefined ? undefined : actionMethod(methodText);
  if (methodText !== undefined && method === undefined)
    problems.add('action.method', 'must be an HTTP method other than TRACE and CONNECT');
  const params = map['params'];
  if (!isJsonObject(params)) problems.add('action.params', params === undefined ? 'is required' : 'must be an object');
  const headers = readHeaders(map['headers'], problems);
  const target = readTarget(map, isAiHost, problems);
  if (type === undefined || method === undefined || target === undefined || !isJsonObject(params) || problems.found) return undefined;
  return {
    action: {
      type,
      method,
      target_host: target.host,
      ...(target.path === undefined ? {} : { target_path: target.path }),
      ...(target.url === undefined ? {} : { target: target.url }),
      params,
      ...(headers === undefined ? {} : { headers }),
    },
    port: target.port,
    tls: target.tls,
  };
}

interface Target {
  readonly host: string;
  readonly path: string | undefined;
  readonly url: string | undefined;
  readonly port: number;
  readonly tls: boolean;
}

/**
 * `target_host`, `target_path` and `target` must say the same; `target` may add the port, and the path when
 * `target_path` is absent (decision 8.4).
 */
function readTarget(map: Members, isAiHost: IsAiHost, problems: EnvelopeProblems): Target | undefined {
  const host = readHost(map, problems);
  const pathText = shortText(map, 'target_path', problems);
  const url = shortText(map, 'target', problems);
  refuseTokens(map, problems);
  if (host === undefined) return undefined;
  const path = pathText === undefined ? undefined : readPath(pathText, 'action.target_path', host, isAiHost, problems);
  if (url === undefined) return { host, path, url, port: 443, tls: true };
  const parts = TARGET_URL.exec(url);
  const tls = parts?.[1]?.toLowerCase() === 'https';
  const authority = parseAuthority(parts?.[2] ?? '', tls ? 443 : 80);
  if (parts === null || authority === undefined) {
    problems.add('action.target', 'must be an http or https URL without user info and fragment');
    return undefined;
  }
  if (authority.host !== host) problems.add('action.target', 'must name the same host as action.target_host');
  const urlPath = parts[3] ? readPath(parts[3], 'action.target', host, isAiHost, problems) : path;
  if (path !== undefined && urlPath !== undefined && path !== urlPath) {
    problems.add('action.target', 'must have the same path as action.target_path');
  }
  return { host, path: path ?? urlPath, url, port: authority.port, tls };
}

function refuseTokens(map: Members, problems: EnvelopeProblems): void {
  for (const name of ['target_host', 'target_path', 'target']) {
    const text = map[name];
    if (typeof text === 'string' && holdsOwnToken(text)) problems.add(`action.${name}`, OWN_TOKEN_RULE);
  }
}

function readHost(map: Members, problems: EnvelopeProblems): string | undefined {
  const text = requiredText(map, 'target_host', problems);
  if (text === undefined) return undefined;
  const host = canonicalHost(text);
  if (host === undefined) problems.add('action.target_host', 'must be a host name only, without scheme, port or path');
  return host;
}

function readPath(text: string, member: string, host: string, isAiHost: IsAiHost, problems: EnvelopeProblems): string | undefined {
  try {
    return canonicalPath(text, isAiHost(host));
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    problems.add(member, error.message);
    return undefined;
  }
}

function readHeaders(value: Member, problems: EnvelopeProblems): Readonly<Record<string, string>> | undefined {
  if (value === undefined) return undefined;
  if (!isJsonObject(value)) {
    problems.add('action.headers', 'must be an object of strings');
    return undefined;
  }
  const names = Object.keys(value);
  if (names.length > MAX_HEADERS) problems.add('action.headers', `must have at most ${MAX_HEADERS} members`);
  const seen = new Set<string>();
  for (const name of names.slice(0, MAX_HEADERS)) {
    const lower = name.toLowerCase();
    const text = value[name];
    const path = `action.headers.${name}`;
    if (!isHeaderName(name)) problems.add(path, 'is not a header name');
    else if (isFixedHeader(lower)) problems.add(path, 'cannot be set by a caller');
    else if (seen.has(lower)) problems.add(path, 'is given twice');
    else if (typeof text !== 'string' || text.length > MAX_HEADER_VALUE || !isHeaderValue(text)) {
      problems.add(path, `must be a string of at most ${MAX_HEADER_VALUE} printable characters`);
    }
    seen.add(lower);
  }
  return stringMap(value);
}

/**
 * Every value was checked to be a string; this only tells the compiler so without copying names such as `__proto__`
 * into an ordinary object.
 */
function stringMap(map: JsonObject): Readonly<Record<string, string>> {
  const result: Record<string, string> = emptyMap();
  for (const [name, value] of Object.entries(map)) {
    if (typeof value === 'string') result[name] = value;
  }
  return result;
}

function requiredText(map: Members, name: string, problems: EnvelopeProblems): string | undefined {
  const text = optionalText(map, name, problems);
  if (text === undefined && map[name] === undefined) problems.add(`action.${name}`, 'is required');
  return text;
}

function optionalText(map: Members, name: string, problems: EnvelopeProblems): string | undefined {
  const value = map[name];
  if (value === undefined) return undefined;
  if (typeof value === 'string' && value !== '') return value;
  problems.add(`action.${name}`, 'must be a non-empty string');
  return undefined;
}

function shortText(map: Members, name: string, problems: EnvelopeProblems): string | undefined {
  const text = optionalText(map, name, problems);
  if (text === undefined || text.length <= MAX_TARGET) return text;
  problems.add(`action.${name}`, `must be at most ${MAX_TARGET} characters`);
  return undefined;
}

/**
 * Names and values with lone surrogates cannot be written as UTF-8, so neither sent nor hashed (decision 7.6). Depth is
 * bounded by the scan before.
 */
function findIllFormed(value: unknown, path: string, problems: EnvelopeProblems): void {
  if (typeof value === 'string') {
    if (!isWellFormed(value)) problems.add(path, 'is not well-formed Unicode');
    return;
  }
  if (typeof value !== 'object' || value === null) return;
  for (const [name, member] of Object.entries(value)) {
    const inner = path === '' ? name : `${path}.${name}`;
    if (isWellFormed(name)) findIllFormed(member, inner, problems);
    else problems.add(path, 'has a member whose name is not well-formed Unicode');
  }
}
