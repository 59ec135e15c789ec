import type { Dialect, SocketRule } from '../../base/catalogue/types.ts';
import { isJsonObject, type JsonObject } from '../../base/json/json-object.ts';
import { parseSafeJsonText } from '../../base/json/safe-json.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Usage } from '../../base/model/usage.ts';
import { compilePath, valueAt } from './answer-paths.ts';
import { modelName, usageReader } from './usage-reader.ts';

/** One event of a server on a WebSocket whose calls are metered, as far as it concerns them. */
export interface ServerEvent {
  readonly kind: 'settings' | 'started' | 'done' | 'error' | 'side' | 'other';
  readonly type: string;
  /** All of it. */
  readonly data: Readonly<Record<string, unknown>>;
  /** Of the call that it belongs to, when it says so. */
  readonly responseId: string | undefined;
  /** The lane of a socket that carries several (`stream_id`). */
  readonly lane: string | undefined;
  /** The whole settings of the session. */
  readonly settings: Readonly<Record<string, unknown>> | undefined;
  /** These settings are the answer to a change that the client asked for. */
  readonly answersChange: boolean;
  /** The client event that an error is about. */
  readonly causedBy: string | undefined;
  readonly model: string | undefined;
  readonly usage: Usage | undefined;
  /** How a call ended. */
  readonly outcome: 'complete' | 'error' | 'aborted';
}

/** Ends that are none the model came to by itself. */
const OUTCOMES: Readonly<Record<string, ServerEvent['outcome']>> = { failed: 'error', cancelled: 'aborted' };

/**
 * Reads a server event; undefined for what is no event, which concerns no call.
 * @param call the wire format of the calls
 * @throws GatewayError `upstream_protocol` for one that nests deeper, or has more members, than the event of a client
 * may: what it says of a call cannot be known then
 */
export function readServerEvent(payload: Buffer, rule: SocketRule, call: Dialect): ServerEvent | undefined {
  const event = parsed(payload);
  const type = event?.['type'];
  if (event === undefined || typeof type !== 'string') return undefined;
  const kind = kindOf(type, rule);
  const response = record(event['response']);
  const usageOf = kind === 'side' ? event : response;
  const reader = call.usage === undefined ? undefined : usageReader(call.usage);
  return {
    kind,
    type,
    data: event,
    responseId: text(event['response_id']) ?? text(response?.['id']),
    lane: text(event['stream_id']),
    settings: kind === 'settings' ? record(event['session']) : undefined,
    answersChange: rule.updatedEvents.includes(type),
    causedBy: kind === 'error' ? text(valueAt(event, ERROR_EVENT_ID)) : undefined,
    model: modelName(response?.['model']),
    usage: reader?.readAnswer(usageOf),
    outcome: OUTCOMES[String(response?.['status'])] ?? 'complete',
  };
}

const ERROR_EVENT_ID = compilePath('error.event_id');

function kindOf(type: string, rule: SocketRule): ServerEvent['kind'] {
  if (rule.doneEvents.includes(type)) return 'done';
  if (rule.startedEvents.includes(type)) return 'started';
  if (rule.settingsEvents.includes(type)) return 'settings';
  if (rule.sideEvents.includes(type)) return 'side';
  return type === 'error' ? 'error' : 'other';
}

/** The models beside the session's own that settings name: each is charged by itself. */
export function sideModels(settings: unknown, rule: SocketRule): readonly string[] {
  return rule.sideModels.flatMap((path) => modelName(valueAt(settings, compilePath(path))) ?? []);
}

/** The event that tells a client of a refusal, in the words of a provider's own `error` event. */
export function errorEvent(
  body: Readonly<Record<string, unknown>>,
  status: number,
  about: { readonly eventId?: string; readonly lane?: string },
): string {
  const { error } = body;
  const known = record(error) ?? {};
  return JSON.stringify({
    type: 'error',
    event_id: `event_${String(body['record_id'] ?? 'gateway')}`,
    status,
    ...body,
    error: { ...known, event_id: about.eventId ?? null },
    ...(about.lane === undefined ? {} : { stream_id: about.lane }),
  });
}

function parsed(payload: Buffer): Readonly<Record<string, unknown>> | undefined {
  const text = payload.toString('utf8');
  // Sound that is sent as it is must not be taken for a large event.
  if (!OBJECT.test(text)) return undefined;
  try {
    return record(parseSafeJsonText(text).value);
  } catch (error) {
    if (error instanceof GatewayError && error.code !== 'body_too_deep') return undefined;
    // biome-ignore lint/style/useErrorCause: the cause is in the third argument
    throw new GatewayError('upstream_protocol', 'The upstream sent an event on the WebSocket that is too deep or too large to be read.', {
      cause: error,
    });
  }
}

const OBJECT = /^\ufeff?[\t\n\r ]*\{/;

function record(value: unknown): JsonObject | undefined {
  return isJsonObject(value) ? value : undefined;
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' && value.length <= 256 ? value : undefined;
}
