import { openaiStreamEvent } from '../support/openai-stream.ts';

/**
 * How an answer is to be given. Travels in a header where the call has headers, in `metadata` of its body where it has
 * none.
 */
export interface Pace {
  readonly tag: string;
  readonly model: string;
  /** Milliseconds before the head. */
  readonly delay: number;
  /** 0: an answer that is no stream, with about `bytes` bytes. */
  readonly events: number;
  /** Milliseconds between two events. */
  readonly gap: number;
  /** Milliseconds from the terminal event to the end of the body. */
  readonly end: number;
  readonly bytes: number;
  /** False: Content-Length. */
  readonly chunked: boolean;
}

export function readPace(header: string | string[] | undefined, body: Buffer | undefined): Pace | undefined {
  if (typeof header === 'string') return JSON.parse(header) as Pace;
  if (body === undefined || body.length === 0) return undefined;
  return (JSON.parse(body.toString('utf8')) as { metadata?: Pace }).metadata;
}

/*
 * The bytes of an answer follow from its pace and from what the upstream was sent, so that a client can tell what is
 * whole from what only looks so. `sent`: SHA-256 of the request body, where the gateway has to pass it as it came.
 */

export function wholeAnswer(pace: Pace, sent: string | undefined): string {
  return JSON.stringify({
    id: `chatcmpl-${pace.tag}`,
    object: 'chat.completion',
    model: pace.model,
    ...(sent === undefined ? {} : { system_fingerprint: sent }),
    choices: [{ index: 0, message: { role: 'assistant', content: 'x'.repeat(pace.bytes) }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 11 + (pace.bytes % 97), completion_tokens: 7 + (pace.bytes % 31), total_tokens: 18 },
  });
}

/** One write each; the last one is the usage event with the terminal event behind it. */
export function streamEvents(pace: Pace, sent: string | undefined): string[] {
  const { tag, model } = pace;
  const named = (event: string): string => event.replace('chatcmpl-1', `chatcmpl-${tag}`).replace('gpt-4o-mini', model);
  const usage = { prompt_tokens: 11, completion_tokens: pace.events, total_tokens: 11 + pace.events };
  const fingerprint = sent === undefined ? {} : { system_fingerprint: sent };
  const tail = { id: `chatcmpl-${tag}`, object: 'chat.completion.chunk', model, ...fingerprint, choices: [], usage };
  const events = Array.from({ length: pace.events }, (_, at) => named(openaiStreamEvent(at)));
  return [...events, `data: ${JSON.stringify(tail)}\n\ndata: [DONE]\n\n`];
}
