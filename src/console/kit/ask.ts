import { signal } from '@preact/signals';
import type { Operations } from '../../../build/operations.d.ts';
import { shownText } from '../../base/lib/shown-text.ts';
import { WORDS } from '../words.ts';
import { place, ROOT } from './place.ts';

export type { Operations };
/** An operation by its method and path. */
export type OperationName = keyof Operations;
export type Answer<N extends OperationName> = Operations[N]['answer'];
/** One element of an answer that is a page of a list. */
export type Item<N extends OperationName> = Answer<N> extends { readonly data: readonly (infer T)[] } ? T : never;

type Part<N extends OperationName, M extends string> = Operations[N] extends Readonly<Record<M, infer T>> ? T : undefined;
export interface Given<N extends OperationName> {
  readonly params?: Part<N, 'params'>;
  readonly query?: Part<N, 'query'>;
  readonly body?: Part<N, 'body'>;
}

/** A refusal, or what became of a question that nobody answered. */
export class AskRefusal extends Error {
  /** HTTP status; 0: nothing came. */
  readonly status: number;
  readonly code: string;
  readonly details: readonly { readonly path: string; readonly message: string }[];

  constructor(message: string, { status = 0, code = 'error', details = [], cause }: Partial<Omit<AskRefusal, 'message'>> = {}) {
    super(message, { cause });
    this.status = status;
    this.code = code;
    this.details = details;
  }
}

/** What somebody is told of a failure. */
export function refusalFrom(error: unknown): AskRefusal {
  return error instanceof AskRefusal ? error : new AskRefusal(String(error), { cause: error });
}

/** Counts sessions that were found to be over: whoever watches it asks for another sign-in. */
export const sessionOver = signal(0);
/** The org for which the holder of the admin token asks; undefined: that of the gateway. */
export const askedOrg = (): string | undefined => place.value.query.get('org') ?? undefined;

/** Asks an operation. @throws AskRefusal, or an `AbortError` when `signal` ended it */
export async function ask<N extends OperationName>(name: N, given: Given<N> = {}, signal?: AbortSignal): Promise<Answer<N>> {
  const [method = '', path = ''] = name.split(' ');
  const response = await sent(urlOf(name, given), {
    method,
    headers: headersOf(path, given.body !== undefined),
    ...(given.body === undefined ? {} : { body: JSON.stringify(given.body) }),
    ...(signal === undefined ? {} : { signal }),
  });
  if (response.status === 204) return undefined as Answer<N>;
  if (response.ok) return seen(await response.text()) as Answer<N>;
  throw await refusalTo(path, response);
}

/** The answer to a read as a file: as it was sent, of the org that is looked at. @throws AskRefusal */
export async function askFile<N extends OperationName>(name: N, given: Given<N>): Promise<Blob> {
  const path = name.slice(name.indexOf(' ') + 1);
  const response = await sent(urlOf(name, given), { headers: { ...headersOf(path, false), Accept: '*/*' } });
  if (!response.ok) throw await refusalTo(path, response);
  return response.blob();
}

async function refusalTo(path: string, response: Response): Promise<AskRefusal> {
  const refusal = await refusalOf(response);
  if (refusal.status === 401 && !path.startsWith('/v1/console/sessions')) sessionOver.value += 1;
  return refusal;
}

function urlOf<N extends OperationName>(name: N, { params, query }: Given<N>): string {
  const path = name.slice(name.indexOf(' ') + 1);
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String((params as Record<string, unknown>)[name])));
  const url = new URL(filled.slice(1), ROOT);
  for (const [member, value] of Object.entries((query as Record<string, unknown> | undefined) ?? {}))
    if (value !== undefined && value !== '') url.searchParams.set(member, String(value));
  return url.href;
}

async function sent(url: string, request: RequestInit): Promise<Response> {
  try {
    return await fetch(url, { ...request, credentials: 'same-origin' });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new AskRefusal(WORDS.noAnswer, { code: 'no_answer', cause: error });
  }
}

/** @throws AskRefusal for an org whose name no header can hold */
function headersOf(path: string, hasBody: boolean): Record<string, string> {
  // Who has signed in is a question of no org: an address with the org of somebody else ends no session.
  const org = path.startsWith('/v1/console/') ? undefined : askedOrg();
  if (org !== undefined && !/^[\x21-\x7e]+$/.test(org)) throw new AskRefusal(WORDS.head.noOrg, { status: 400, code: 'invalid_request' });
  return {
    Accept: 'application/json',
    // No form of another page can send it.
    'GW-Console': '1',
    ...(org === undefined ? {} : { 'GW-Org': org }),
    ...(hasBody ? { 'Content-Type': 'application/json' } : {}),
  };
}

/**
 * An answer in which nothing is hidden: what a stranger has written and nobody would see is written out, on every page
 * alike. Undefined for what is no JSON.
 */
function seen(text: string): unknown {
  try {
    return JSON.parse(text, (_, value: unknown) => (typeof value === 'string' ? shownText(value, 'page') : value));
  } catch {
    return undefined;
  }
}

async function refusalOf(response: Response): Promise<AskRefusal> {
  const { status } = response;
  const body = seen(await response.text()) as { readonly error?: Partial<AskRefusal> } | undefined;
  const { code = 'error', message = `The gateway answered ${status}.`, details = [] } = body?.error ?? {};
  return new AskRefusal(message, { status, code, details });
}
