import { setImmediate as turn } from 'node:timers/promises';
import type { Events } from '../../base/events/bus.ts';
import { unrecordedEvent } from '../../base/events/unrecorded.ts';
import { parseSafeJson } from '../../base/json/safe-json.ts';
import { cookieText } from '../../base/lib/cookie.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { REQUEST_ID_HEADER, requestIdOf } from '../../base/lib/ids.ts';
import type { Logger } from '../../base/lib/log.ts';
import { withoutOwnTokens } from '../../base/lib/own-tokens.ts';
import { badQuery, queryMistakes } from '../../base/lib/query-names.ts';
import { shownJson } from '../../base/lib/shown-text.ts';
import type { Arrival, ArrivalHead, ReplySink } from '../../base/model/arrival.ts';
import type { Principal } from '../../base/model/principal.ts';
import type { RouteAuthenticator } from './proofs.ts';
import type { Route, RouteAnswer, RouteRequest } from './route.ts';
import { type RouteMatch, RouteTree } from './route-tree.ts';
import { WorkUnderWay } from './work-under-way.ts';

/** Bodies of management calls are small; bundles are the largest of them. */
const MAX_BODY_BYTES = 4 * 1024 * 1024;

export interface RouterOptions {
  readonly routes: readonly Route[];
  readonly authenticator: RouteAuthenticator;
  readonly log: Logger;
  readonly events: Events;
  /** Address of the caller, without port. */
  callerIp(head: ArrivalHead): string;
  /** What is said behind `There is nothing at …`. Default: how base URLs of providers begin. */
  readonly advice?: string;
  /** What those who ask have under way; of several routers the same one. Default: one of its own. */
  readonly underWay?: WorkUnderWay;
}

type HandledRoute = Extract<Route, { readonly handle: unknown }>;

/** Finds the route of an origin-form request and answers it. */
export class Router {
  readonly #options: RouterOptions;
  readonly #underWay: WorkUnderWay;
  readonly #tree: RouteTree;
  /** First segments of all routes, which are no parameters: what no route begins with needs no look at each of them. */
  readonly #first = new Set<string>();

  constructor(options: RouterOptions) {
    this.#options = options;
    this.#underWay = options.underWay ?? new WorkUnderWay();
    this.#tree = new RouteTree(options.routes);
    for (const { path, yields } of options.routes) if (yields !== true) this.#first.add(path.split('/')[1] ?? '');
  }

  /** True when some route has this path and yields it to nothing else, whatever the method. */
  owns(path: string, ambientPort: boolean): boolean {
    const slash = path.indexOf('/', 1);
    if (!this.#first.has(path.slice(1, slash === -1 ? path.length : slash))) return false;
    return this.#tree.matches(path, ambientPort).length > 0;
  }

  /** True when this path is that of a page for people. */
  isPage(path: string): boolean {
    return this.#tree.matches(path, false).some(({ route }) => route.page === true);
  }

  /** Answers the request; never rejects. */
  async handle(arrival: Arrival): Promise<void> {
    const { head, reply } = arrival;
    try {
      const match = this.#select(head);
      const asked = this.#options.authenticator.principal(match.route.auth, head);
      // What takes the exchange over does so at once.
      const principal = asked instanceof Promise ? await asked : asked;
      if (match.route.query === undefined) refuseQuery(match.route, head.rawTarget);
      if ('take' in match.route) {
        match.route.take(arrival);
        return;
      }
      await this.#answer(arrival, { ...match, route: match.route }, principal);
    } catch (error) {
      if (reply.gone) return;
      const known = this.#known(error);
      if (!reply.headSent) return this.refuse(arrival, known);
      if (known === error) this.#options.log.error({ err: error }, 'an answer was broken off');
      reply.reset();
    }
  }

  /**
   * Work that nobody waits for ends: it is told when the client has left. Whoever needed to show something has a share
   * of what is under way at a time.
   */
  async #answer(arrival: Arrival, match: RouteMatch<HandledRoute>, principal: Principal): Promise<void> {
    const { head, reply } = arrival;
    const { route } = match;
    const signal = goneSignal(reply);
    const isCounted = route.auth !== 'none' && route.waits !== true;
    if (isCounted) await this.#underWay.enter(principal, signal);
    try {
      const from = this.#options.callerIp(head);
      const answer = await route.handle({ ...requestOf(arrival, match), principal, from, signal });
      if (reply.gone) return;
      if (answer.parts === undefined) sendAnswer(arrival, answer);
      else await sendParts(arrival, answer, answer.parts);
    } finally {
      if (isCounted) this.#underWay.leave(principal);
    }
  }

  /** Answers with an error, and tells of it. */
  refuse(arrival: Arrival, error: GatewayError): void {
    const { events, callerIp } = this.#options;
    sendError(arrival, error);
    if (events.hears('unrecorded')) events.emit('unrecorded', unrecordedEvent(error, arrival, { callerIp: callerIp(arrival.head) }));
  }

  #select(head: ArrivalHead): RouteMatch {
    const isThere = ({ route }: RouteMatch): boolean =>
      route.bySession !== true || this.#options.authenticator.showsSession?.(head) === true;
    const matches = this.#tree.matches(pathOf(head), head.trafficClass === 'ambient').filter(isThere);
    const method = head.method === 'HEAD' ? 'GET' : head.method;
    const match = matches.find(({ route }) => route.method === method);
    if (match) return match;
    if (matches.length === 0) throw new GatewayError('not_found', this.#nothingAt(pathOf(head)));
    throw new MethodNotAllowed(matches.flatMap(({ route }) => (route.method === 'GET' ? ['GET', 'HEAD'] : [route.method])));
  }

  /** Mostly a base URL without its prefix: SDKs show this text. */
  #nothingAt(path: string): string {
    if (this.#tree.matches(path, false).length > 0) return `${path} is served on GW_PORT only.`;
    const { advice = path.startsWith('/v1/admin/') ? '' : ' Base URLs begin with /proxy/{provider}, such as /proxy/openai/v1.' } =
      this.#options;
    return `There is nothing at ${withoutOwnTokens(path)}.${advice}`;
  }

  #known(error: unknown): GatewayError {
    if (error instanceof GatewayError) return error;
    this.#options.log.error({ err: error }, 'a route failed unexpectedly');
    return new GatewayError('internal', 'The gateway failed to handle this request; its log has the details.', { cause: error });
  }
}

/** 405 with the methods that the path has (decision 8.1). */
class MethodNotAllowed extends GatewayError {
  readonly #methods: string;

  constructor(methods: readonly string[]) {
    super('method_not_allowed', `This path takes ${methods.join(', ')}.`);
    this.#methods = methods.join(', ');
  }

  override get headers(): readonly string[] {
    return [...super.headers, 'Allow', this.#methods];
  }
}

function pathOf(head: ArrivalHead): string {
  const query = head.rawTarget.indexOf('?');
  return query < 0 ? head.rawTarget : head.rawTarget.slice(0, query);
}

function queryOf(rawTarget: string): URLSearchParams {
  const query = rawTarget.indexOf('?');
  return new URLSearchParams(query < 0 ? '' : rawTarget.slice(query + 1));
}

/** @throws GatewayError `invalid_request` for any parameter */
function refuseQuery({ method, auth }: Route, rawTarget: string): void {
  if (!rawTarget.includes('?')) return;
  const mistakes = queryMistakes(queryOf(rawTarget), [], method === 'GET' && auth === 'none');
  if (mistakes.length > 0) throw badQuery(mistakes);
}

/** Aborted when the client leaves. */
function goneSignal(reply: ReplySink): AbortSignal {
  const controller = new AbortController();
  const abort = (): void => controller.abort(new GatewayError('client_gone', 'The client left before it was answered.'));
  if (reply.gone) abort();
  else reply.onGone(abort);
  return controller.signal;
}

function requestOf(arrival: Arrival, { params, route }: RouteMatch): Omit<RouteRequest, 'principal' | 'from' | 'signal'> {
  const { head, body } = arrival;
  const { maxBodyBytes = MAX_BODY_BYTES } = route;
  return {
    head,
    params,
    query: queryOf(head.rawTarget),
    json: async (ifNone) => {
      const bytes = await body.readAll(maxBodyBytes);
      return bytes.length === 0 && ifNone !== undefined ? ifNone : parseSafeJson(bytes, { malformed: 'invalid_request' }).value;
    },
    text: async () => utf8In(await body.readAll(maxBodyBytes)),
  };
}

function utf8In(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    // biome-ignore lint/style/useErrorCause: the decoder's error says nothing more
    throw new GatewayError('invalid_request', 'The body is no UTF-8 text.');
  }
}

/**
 * What a Location can be that says one thing to all: a path of this origin, a folder beside what was asked for (which
 * holds below a path of a proxy, too), or an address of another by TLS.
 */
const LOCATION = /^(?:\/(?![/\\])|[a-z]+\/(?![/\\])|https:\/\/)[\x21-\x7e]*$/;

/** @throws TypeError for a Location or a cookie that no answer can have: a mistake in the program */
function headersOf({ headers = [], cookies = [], redirect, cache = 'no-store' }: RouteAnswer): string[] {
  const fields = [...headers, 'Cache-Control', cache, 'X-Content-Type-Options', 'nosniff'];
  if (redirect !== undefined) {
    if (!LOCATION.test(redirect)) throw new TypeError('an answer redirects to what is no address');
    fields.push('Location', redirect);
  }
  for (const cookie of cookies) fields.push('Set-Cookie', cookieText(cookie));
  return fields;
}

/** Sends what is made while it is sent. Whoever does not read holds up nothing but his own answer. */
async function sendParts({ head, reply }: Arrival, answer: RouteAnswer, parts: AsyncIterable<string>): Promise<void> {
  const headers = [...headersOf(answer), 'Content-Type', answer.contentType ?? 'text/plain; charset=utf-8'];
  if (head.method === 'HEAD') {
    reply.head(answer.status, headers);
    return reply.end();
  }
  let goOn: () => void = () => undefined;
  reply.onDrain(() => goOn());
  reply.onGone(() => goOn());
  for await (const part of parts) {
    if (reply.gone) return;
    if (!reply.headSent) reply.head(answer.status, headers);
    const hasRoom = reply.write(Buffer.from(part));
    if (reply.gone) return;
    if (hasRoom) await turn();
    else await new Promise<void>((resolve) => (goOn = resolve));
  }
  if (!reply.headSent) reply.head(answer.status, headers);
  reply.end();
}

function sendAnswer({ head, reply }: Arrival, answer: RouteAnswer): void {
  const headers = headersOf(answer);
  let body: Uint8Array = answer.bytes ?? new Uint8Array(0);
  if (answer.json !== undefined) {
    headers.push('Content-Type', 'application/json');
    body = Buffer.from(JSON.stringify(answer.json));
  } else if (answer.text !== undefined) {
    headers.push('Content-Type', answer.contentType ?? 'text/plain; charset=utf-8');
    body = Buffer.from(answer.text);
  } else if (answer.bytes !== undefined) {
    headers.push('Content-Type', answer.contentType ?? 'application/octet-stream');
  }
  if (answer.status === 304) {
    reply.head(304, headers, undefined, true);
    reply.end();
  } else if (head.method === 'HEAD') {
    reply.head(answer.status, headers, body.length);
    reply.end();
  } else {
    reply.sendWhole(answer.status, headers, body);
  }
}

/** The one form of an error where the gateway answers by itself and nothing else is said of it (decision 8.1). */
export function sendError({ head, reply }: Pick<Arrival, 'head' | 'reply'>, error: GatewayError): void {
  const headers = [REQUEST_ID_HEADER, requestIdOf(head.rawHeaders), 'Content-Type', 'application/json', ...error.headers];
  reply.sendWhole(error.status, headers, Buffer.from(shownJson(JSON.stringify(error.toBody()))));
}
