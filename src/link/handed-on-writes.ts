import { isJsonObject, type JsonObject } from '../base/json/json-object.ts';
import type { Clock } from '../base/lib/clock.ts';
import { type ErrorDetail, GatewayError } from '../base/lib/gateway-error.ts';
import { ERROR_CODES, type ErrorCode } from '../base/model/error-codes.ts';
import { namedPrincipal } from '../base/model/principal.ts';
import type { WrittenEntry } from '../control-plane/proto/messages.ts';
import { ProtocolError } from '../control-plane/proto/protocol-error.ts';
import type { Asking } from '../services/orgs/audit-trail.ts';
import type { Channel, Contact, RemoteName } from './link-ports.ts';
import { askPatiently } from './patience.ts';

/** How long a write waits for a control plane that takes them more slowly than they come. */
const PATIENCE_MS = 5_000;

/**
 * What is fetched again once a write of this kind is stored, so that its writer sees it; nothing: the answer itself
 * brings it.
 */
const BRINGS = {
  'credentials.put': 'credentials',
  'credentials.amend': 'credentials',
  'credentials.assign': 'credentials',
  'credentials.remove': 'credentials',
  'credentials.remove_of': 'credentials',
  'workloads.put': 'workloads',
  'workloads.remove': 'workloads',
  'addons.put': 'addons',
  'overlays.put': 'overlays',
  'org.suspend': undefined,
  'org.reactivate': undefined,
} as const satisfies Readonly<Record<string, RemoteName | undefined>>;

/** Something that is written here and owned by the control plane. */
export interface RemoteWrite {
  readonly kind: keyof typeof BRINGS;
  readonly entries: readonly {
    readonly id: string;
    /** As the admin API of the control plane takes it, without its secret. */
    readonly body?: object;
    /** Goes over the channel and nowhere else. */
    readonly secret?: string | undefined;
  }[];
  /** Refused where it is there already, or is not. */
  readonly only?: 'create' | 'update' | undefined;
}

export interface HandedOnWritesOptions {
  readonly channel: Channel;
  readonly contact: Pick<Contact, 'org'>;
  /** Fetches these. @returns those that could not be brought in; never rejects */
  readonly bringIn: (names: readonly RemoteName[]) => Promise<readonly RemoteName[]>;
  readonly clock: Pick<Clock, 'monotonic' | 'after'>;
}

/** Hands on to the control plane what is written here and owned there, with who has written it (decision 13.12). */
export class HandedOnWrites {
  readonly #options: HandedOnWritesOptions;

  constructor(options: HandedOnWritesOptions) {
    this.#options = options;
  }

  /**
   * Resolves when it is stored there and in force here.
   * @returns what is there now, of each entry that was not removed
   * @throws GatewayError as the control plane answers, `managed_remotely` where it takes no writes,
   * `control_plane_unreachable`
   */
  async write({ principal, operation, from }: Asking, { kind, entries, only }: RemoteWrite): Promise<readonly JsonObject[]> {
    const { channel, contact, bringIn, clock } = this.#options;
    // One of before there were writes says nothing of them.
    if (contact.org?.gateway_writes === '') throw notTaken();
    const by = namedPrincipal(principal);
    // A control plane knows keys, and nothing of sessions: whoever has signed in with one is that key.
    const isByKey = by.kind === 'session' && by.user_id !== undefined;
    const request = {
      kind,
      entries: entries.map(written),
      principal_kind: isByKey ? 'management_key' : by.kind,
      principal_id: isByKey ? by.user_id : by.id,
      operation,
      from,
      only: only ?? '',
    };
    const { results, error } = await askPatiently(clock, PATIENCE_MS, () => channel.call('Write', request)).catch((failed: unknown) => {
      throw failureOf(failed, contact.org?.gateway_writes === 'deny');
    });
    if (error !== '') throw refusalIn(error);
    const name = BRINGS[kind];
    if (name !== undefined) await bringIn([name]);
    return results.map((text) => JSON.parse(text) as unknown).filter(isJsonObject);
  }
}

function written({ id, body, secret }: RemoteWrite['entries'][number]): WrittenEntry {
  return { id, body: body === undefined ? '' : JSON.stringify(body), secret: secret ?? '' };
}

function notTaken(): GatewayError {
  return new GatewayError(
    'managed_remotely',
    'The control plane of this gateway owns this, and takes no writes of gateways: change it there.',
  );
}

/** What it means that there was no answer. @param denied the org was last heard to take no writes */
function failureOf(error: unknown, denied: boolean): unknown {
  if (!(error instanceof ProtocolError)) return error;
  const { fault } = error;
  if (fault === 'INVALID_ARGUMENT')
    return new GatewayError('invalid_request', `The control plane does not take this: ${error.message}`, { cause: error });
  if (fault === 'RESOURCE_EXHAUSTED' && error.retryAfterMs !== undefined)
    return new GatewayError(
      'control_plane_unreachable',
      'The control plane takes no more changes of this gateway at the moment, and has stored nothing of this: try again in some seconds.',
      { cause: error },
    );
  if (fault === 'RESOURCE_EXHAUSTED')
    return new GatewayError('body_too_large', 'This is more than the control plane takes at once.', { cause: error });
  if (denied) return notTaken();
  const whether = fault === 'DEADLINE_EXCEEDED' || fault === 'INTERNAL' ? ' Whether it has stored this is not known.' : '';
  return new GatewayError('control_plane_unreachable', `The control plane, which owns this, does not answer.${whether}`, { cause: error });
}

/** A refusal as its writer would have got it at the control plane. */
function refusalIn(text: string): GatewayError {
  const said = parsed(text);
  const { code, message, details } = isJsonObject(said) ? said : {};
  const known = typeof code === 'string' && Object.hasOwn(ERROR_CODES, code) ? (code as ErrorCode) : 'invalid_request';
  return new GatewayError(known, typeof message === 'string' ? message : 'The control plane refuses this.', {
    ...(Array.isArray(details) ? { details: details.filter(isDetail) } : {}),
  });
}

function isDetail(value: unknown): value is ErrorDetail {
  return isJsonObject(value) && typeof value['path'] === 'string' && typeof value['message'] === 'string';
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
