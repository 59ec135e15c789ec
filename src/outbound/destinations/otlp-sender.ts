import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { shown } from '../../base/events/unrecorded.ts';
import type { WebAddress } from '../../base/lib/web-address.ts';
import { deliveryError } from './delivery-error.ts';
import { SCHEMA_URL } from './gen-ai-conventions.ts';
import { closed, text } from './otlp-attributes.ts';
import { retryAfter, whatCameBack } from './post-answer.ts';
import type { PostAnswer, WayOut } from './way-out.ts';

export interface OtlpReceiver {
  readonly to: WebAddress;
  /** Flat name, value list; secret. */
  readonly headers: readonly string[];
  readonly timeoutMs: number;
  readonly gzip: boolean;
}

/** What became of a batch; `said` is for people, and names neither paths nor queries nor secrets. */
export type OtlpOutcome =
  | { readonly kind: 'taken'; readonly rejected: number; readonly said: string | undefined }
  | { readonly kind: 'again'; readonly afterMs: number | undefined; readonly said: string }
  | { readonly kind: 'refused'; readonly said: string };

const compress = promisify(gzip);
/** Worth another try (the retryable codes of OTLP over HTTP). */
const RETRYABLE: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/** What stands before the spans of a batch. */
export function envelopeOf(resource: Readonly<Record<string, string>>, scope: { readonly name: string; readonly version: string }): string {
  const attributes = closed(
    Object.entries(resource)
      .map(([key, value]) => text(JSON.stringify(key).slice(1, -1), value))
      .join(''),
  );
  return `{"resourceSpans":[{"resource":{"attributes":${attributes}},"schemaUrl":"${SCHEMA_URL}","scopeSpans":[{"scope":{"name":"${scope.name}","version":"${scope.version}"},"schemaUrl":"${SCHEMA_URL}","spans":[`;
}

/** What stands behind them. */
const END = ']}]}]}';

/** Posts spans (OTLP/HTTP, JSON). @param spans joined by commas @param now milliseconds since the epoch */
export async function postSpans(
  door: Pick<WayOut, 'post'>,
  { to, headers, timeoutMs, gzip: zipped }: OtlpReceiver,
  spans: { readonly envelope: string; readonly text: string },
  { signal, now }: { readonly signal: AbortSignal; readonly now: number },
): Promise<OtlpOutcome> {
  const plain = Buffer.from(spans.envelope + spans.text + END);
  const body = zipped ? await compress(plain) : plain;
  const sent = [
    'content-type',
    'application/json',
    'accept',
    'application/json',
    ...(zipped ? ['content-encoding', 'gzip'] : []),
    ...headers,
  ];
  try {
    return outcomeOf(await door.post({ to, headers: sent, body, signal, timeoutMs }), to, now);
  } catch (error) {
    const { retryable, message } = deliveryError(error);
    return retryable ? { kind: 'again', afterMs: undefined, said: message } : { kind: 'refused', said: message };
  }
}

function outcomeOf(answer: PostAnswer, to: WebAddress, now: number): OtlpOutcome {
  const { status } = answer;
  if (status >= 200 && status < 300) return takenOf(answer);
  const said = shown(whatCameBack(answer, to));
  return RETRYABLE.has(status) ? { kind: 'again', afterMs: retryAfter(answer, now), said } : { kind: 'refused', said };
}

/** A receiver may take some spans and reject others (`partial_success`). Whatever else it answers has taken all. */
function takenOf({ body }: PostAnswer): OtlpOutcome {
  let partial: unknown;
  try {
    const parsed: unknown = body === '' ? undefined : JSON.parse(body);
    partial = memberOf(parsed, 'partialSuccess') ?? memberOf(parsed, 'partial_success');
  } catch {
    return { kind: 'taken', rejected: 0, said: undefined };
  }
  const rejected = Number(memberOf(partial, 'rejectedSpans') ?? memberOf(partial, 'rejected_spans') ?? 0);
  const message = memberOf(partial, 'errorMessage') ?? memberOf(partial, 'error_message');
  return {
    kind: 'taken',
    rejected: Number.isSafeInteger(rejected) && rejected > 0 ? rejected : 0,
    said: typeof message === 'string' && message !== '' ? shown(message) : undefined,
  };
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name) ? Reflect.get(value, name) : undefined;
}
