import type { Dialect, Provider } from '../../base/catalogue/types.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';

/** A call of the structured API before it has the provider's form. */
export interface DirectCall {
  readonly method: string;
  /** With query; undefined: the provider's default. */
  readonly path: string | undefined;
  readonly params: Readonly<Record<string, unknown>>;
  readonly stream: boolean;
  /** Lower-case names of the headers that the caller set. */
  readonly headerNames: ReadonlySet<string>;
}

export interface ShapedCall {
  readonly path: string;
  readonly body: Uint8Array | undefined;
  /** Flat name, value list of what the format needs beyond the caller's headers. */
  readonly headers: readonly string[];
}

const BODILESS: readonly string[] = ['GET', 'HEAD', 'DELETE'];

/** The path that a call without one goes to, its model filled in. */
export function defaultPath(provider: Provider | undefined, params: Readonly<Record<string, unknown>>): string {
  const template = provider?.defaultPath ?? '/';
  if (!template.includes('{model}')) return template;
  const model = params['model'];
  if (typeof model !== 'string' || model === '') {
    throw new GatewayError('invalid_request', `the default path of ${provider?.id ?? 'this connector'} needs a model`, {
      details: [{ path: 'action.params.model', message: 'must be text when action.target_path is absent' }],
    });
  }
  const name = model.startsWith('models/') ? model.slice('models/'.length) : model;
  return template.replace('{model}', () => encodeURIComponent(name));
}

/**
 * Gives a call of the structured API the form that its wire format has (decision 8.6): a stream switch that stands in the path is moved there, a model
 * that stands in the path leaves the body, a GET without params has no body, and headers that the format needs are added unless the caller set them.
 * @param dialect of the operation; undefined leaves path and params as they are
 * @throws GatewayError `invalid_request` when the default path needs a model and there is none
 */
export function shapeDirect(provider: Provider | undefined, dialect: Dialect | undefined, call: DirectCall): ShapedCall {
  const path = call.path ?? defaultPath(provider, call.params);
  const body =
    BODILESS.includes(call.method.toUpperCase()) && Object.keys(call.params).length === 0 ? undefined : bodyOf(dialect, call.params);
  const headers: string[] = [];
  const add = (name: string, value: string): void => {
    if (!call.headerNames.has(name.toLowerCase())) headers.push(name, value);
  };
  if (body !== undefined) add('content-type', 'application/json');
  const version = dialect?.versionHeader ?? provider?.versionHeader;
  if (version !== undefined) add(version.name, version.fallback);
  return { path: call.stream && dialect?.streamPath !== undefined ? streamPath(path, dialect.streamPath) : path, body, headers };
}

function bodyOf(dialect: Dialect | undefined, params: Readonly<Record<string, unknown>>): Uint8Array {
  const modelOutside =
    dialect !== undefined && dialect.model.length > 0 && dialect.model.every((place) => place.in === 'path' || place.in === 'query');
  const streamOutside = dialect?.streamPath !== undefined;
  if (!modelOutside && !streamOutside) return Buffer.from(JSON.stringify(params));
  const { model, stream, ...rest } = params;
  const kept = {
    ...(modelOutside || model === undefined ? {} : { model }),
    ...(streamOutside || stream === undefined ? {} : { stream }),
    ...rest,
  };
  return Buffer.from(JSON.stringify(kept));
}

/** `…:generateContent` → `…:streamGenerateContent?alt=sse`; a path that streams already only gets the query. */
function streamPath(path: string, rule: NonNullable<Dialect['streamPath']>): string {
  const at = path.indexOf('?');
  const bare = at === -1 ? path : path.slice(0, at);
  const query = at === -1 ? '' : path.slice(at + 1);
  const before = bare.slice(0, bare.length - rule.from.length);
  const verb = bare.endsWith(rule.from) && /(?::|%3a)$/i.test(before) ? before + rule.to : bare;
  const name = rule.query.slice(0, rule.query.indexOf('=') + 1);
  const others = query.split('&').filter((part) => part !== '' && !part.startsWith(name));
  return `${verb}?${[...others, rule.query].join('&')}`;
}
