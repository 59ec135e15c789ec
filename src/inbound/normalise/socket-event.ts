import type { SocketRule } from '../../base/catalogue/types.ts';
import { setJsonMember } from '../../base/json/json-edit.ts';
import { isJsonObject } from '../../base/json/json-object.ts';
import { parseSafeJson } from '../../base/json/safe-json.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { shorten } from '../../base/lib/text.ts';
import type { AppliedChange } from './apply-mutations.ts';
import { dottedValue } from './places.ts';

/** One event of a client on a WebSocket whose calls are metered. */
export interface ClientEvent {
  readonly type: string;
  readonly bytes: Uint8Array;
  readonly text: string;
  readonly value: Readonly<Record<string, unknown>>;
}

/** An event that asks for a call or changes the settings of calls to come. */
export interface CallEvent extends ClientEvent {
  /** Member that holds the params; '' is the event itself. */
  readonly paramsIn: string;
  /** True where the event has no place for the model. */
  readonly modelIsFixed: boolean;
}

type Params = Readonly<Record<string, unknown>>;

/** Members that decide what an event means. */
const GOVERNED = ['type', 'response', 'session', 'event_id', 'stream_id'];
const MODEL = 'action.params.model';
const PARAMS = 'action.params.';
/** An output maximum that says there is none. */
const NO_MAXIMUM = 'inf';

/**
 * Reads an event so that policy sees what the provider will see (decision 3.19), text frame or binary one.
 * @throws GatewayError `ambiguous_body`, `body_too_deep`
 */
export function readClientEvent(bytes: Uint8Array, rule: SocketRule): ClientEvent {
  const chain = rule.createIn === '' ? [] : [rule.createIn];
  const { value, text, doubt } = parseSafeJson(bytes, { chain });
  if (doubt !== undefined) throw ambiguous(doubt.message);
  if (!isJsonObject(value)) throw ambiguous('The event is not a JSON object.');
  const { type } = value;
  if (typeof type !== 'string') throw ambiguous('The event has no type.');
  for (const name of Object.keys(value)) {
    if (!GOVERNED.includes(name) && GOVERNED.includes(name.toLowerCase()))
      throw ambiguous(`The name "${shorten(name)}" differs from another only in case.`);
  }
  if (type === rule.create && rule.createIn === '' && Object.hasOwn(value, 'response'))
    throw ambiguous('The event holds the members of its call and a "response" besides.');
  if (rule.updates.includes(type)) refuseOddSettings(bytes, value['session'], rule);
  return { type, bytes, text, value };
}

/**
 * The scan of an event watches one member; the settings, and in them the way to each model beside the session's own,
 * are looked at when they come.
 */
function refuseOddSettings(bytes: Uint8Array, session: unknown, { sideModels }: SocketRule): void {
  for (const path of ['model', ...sideModels]) {
    const names = path.split('.');
    const { doubt } = parseSafeJson(bytes, { chain: ['session', ...names.slice(0, -1)] });
    if (doubt !== undefined) throw ambiguous(doubt.message);
    let at: unknown = session;
    for (const name of names) {
      if (!isJsonObject(at)) break;
      const other = Object.keys(at).find((known) => known !== name && known.toLowerCase() === name);
      if (other !== undefined) throw ambiguous(`The name "${shorten(other)}" differs from "${name}" only in case.`);
      at = at[name];
    }
  }
}

/** What a call says, without a model: in formats whose sessions have one, calls cannot name another. */
export function withoutModel(said: unknown): unknown {
  return isJsonObject(said) ? Object.fromEntries(Object.entries(said).filter(([name]) => name !== 'model')) : said;
}

/**
 * The params of a call as policy sees them: what the event says, laid over the settings that the server has told.
 * @param model of the session, for formats that have one
 */
export function callParams(settings: Params, said: unknown, model: string | undefined): Params {
  const params: Record<string, unknown> = { ...settings, ...(isJsonObject(said) ? said : {}), stream: true };
  if (params['model'] === undefined && model !== undefined) params['model'] = model;
  for (const name of ['max_output_tokens', 'max_response_output_tokens']) if (params[name] === NO_MAXIMUM) delete params[name];
  return params;
}

/** What an event says of its call. */
export function saidIn({ value }: ClientEvent, member: string): unknown {
  return member === '' ? value : dottedValue(value, member);
}

/**
 * The event under a name, by which an error of the server can be told; its own, if it has one. `bytes` stay those that
 * came.
 */
export function withEventId(event: ClientEvent, id: string): ClientEvent {
  if (typeof event.value['event_id'] === 'string' && event.value['event_id'] !== '') return event;
  const text = setJsonMember(event.text, ['event_id'], id);
  return text === undefined ? event : { ...event, text, value: { ...event.value, event_id: id } };
}

/** The event with the changes of policy put in; undefined when one of them has no place in it. */
export function rewriteCallEvent(event: CallEvent, changes: readonly AppliedChange[]): Uint8Array | undefined {
  const prefix = event.paramsIn === '' ? [] : [event.paramsIn];
  let text: string | undefined = event.text;
  for (const { key, to } of changes) {
    if (!key.startsWith(PARAMS) || key === 'action.params.stream' || (key === MODEL && event.modelIsFixed)) return undefined;
    text = text === undefined ? undefined : setJsonMember(text, [...prefix, ...key.slice(PARAMS.length).split('.')], to);
  }
  return text === undefined ? undefined : new TextEncoder().encode(text);
}

function ambiguous(message: string): GatewayError {
  return new GatewayError('ambiguous_body', message);
}
