import type { IncomingMessage, ServerResponse } from 'node:http';
import type { UpstreamHandler } from './tls-upstream.ts';

/** What a response used, once it has ended. */
export interface Used {
  readonly in: number;
  readonly out: number;
}

interface Made {
  readonly id: string;
  readonly model: string;
  status: 'queued' | 'in_progress' | 'completed' | 'failed' | 'cancelled';
  used: Used | undefined;
  readonly waiting: (() => void)[];
}

export interface BackgroundUpstream {
  readonly handler: UpstreamHandler;
  /** Ids in the order of their calls. */
  readonly ids: readonly string[];
  /** Ends a response; without a usage it has failed. */
  finish(id: string, used?: Used): void;
  /** Answers to calls wait while this is set. */
  hold: Promise<void> | undefined;
  /** Resolves when so many calls have arrived. */
  arrived(calls: number): Promise<void>;
}

/**
 * The responses API of OpenAI with `background`, and the interactions of Gemini, as their documentation describes them:
 * a response goes on whoever leaves, its usage is null until it has completed, and its events can be had again from any
 * number on.
 */
export function backgroundUpstream(): BackgroundUpstream {
  const all = new Map<string, Made>();
  const ids: string[] = [];
  const expected: { readonly calls: number; readonly then: () => void }[] = [];
  const upstream = {
    ids,
    hold: undefined as Promise<void> | undefined,
    finish(id: string, used?: Used): void {
      const made = all.get(id);
      if (made === undefined) throw new Error(`no response ${id}`);
      made.status = used ? 'completed' : 'failed';
      made.used = used;
      for (const wake of made.waiting.splice(0)) wake();
    },
    arrived: (calls: number) =>
      new Promise<void>((then) => {
        if (ids.length >= calls) then();
        else expected.push({ calls, then });
      }),
    handler: ((request, response, body) => void body.then((bytes) => answer(request, response, bytes))) satisfies UpstreamHandler,
  };
  return upstream;

  async function answer(request: IncomingMessage, response: ServerResponse, bytes: Buffer): Promise<void> {
    const url = new URL(request.url ?? '/', 'https://upstream');
    const form = url.pathname.includes('interactions') ? INTERACTION : RESPONSE;
    const [, id, verb] = /\/(?:responses|interactions)(?:\/([^/]+))?(?:\/(cancel))?$/.exec(url.pathname) ?? [];
    const params = bytes.length === 0 ? {} : (JSON.parse(bytes.toString()) as { model?: string; stream?: boolean });
    const made = id === undefined ? begin(params.model ?? '') : all.get(id);
    if (id === undefined) await upstream.hold;
    if (made === undefined) {
      response.writeHead(404, { 'content-type': 'application/json' }).end('{"error":{"message":"no such response"}}');
      return;
    }
    if (verb === 'cancel' && made.used === undefined) made.status = 'cancelled';
    if (params.stream === true || url.searchParams.get('stream') === 'true')
      stream(response, made, form, Number(url.searchParams.get('starting_after') ?? -1));
    else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(form.object(made)));
    if (made.status === 'queued') made.status = 'in_progress';
  }

  function begin(model: string): Made {
    const made: Made = { id: `resp_${ids.length}_${'a'.repeat(40)}`, model, status: 'queued', used: undefined, waiting: [] };
    all.set(made.id, made);
    ids.push(made.id);
    for (const { calls, then } of expected) if (ids.length >= calls) then();
    return made;
  }
}

/** The first event names the response, the last one says what it used; between them it may be silent for hours. */
function stream(response: ServerResponse, made: Made, form: Form, after: number): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const event = (type: string, number: number, more: object) => {
    if (number > after) response.write(`event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: number, ...more })}\n\n`);
  };
  event(form.created, 0, { [form.member]: form.object({ ...made, used: undefined, status: made.used ? 'in_progress' : made.status }) });
  event('response.output_text.delta', 1, { item_id: 'i', output_index: 0, content_index: 0, delta: 'a word ' });
  const end = () => {
    event(made.used ? form.completed : form.failed, 2, { [form.member]: form.object(made) });
    response.end();
  };
  if (made.status === 'queued' || made.status === 'in_progress') made.waiting.push(end);
  else end();
}

interface Form {
  readonly created: string;
  readonly completed: string;
  readonly failed: string;
  readonly member: string;
  object(made: Pick<Made, 'id' | 'model' | 'status' | 'used'>): object;
}

const RESPONSE: Form = {
  created: 'response.created',
  completed: 'response.completed',
  failed: 'response.failed',
  member: 'response',
  object: ({ id, model, status, used }) => ({
    id,
    object: 'response',
    background: true,
    status,
    error: status === 'failed' ? { code: 'server_error', message: 'it failed' } : null,
    model,
    output: [],
    usage: used
      ? {
          input_tokens: used.in,
          input_tokens_details: { cached_tokens: 0 },
          output_tokens: used.out,
          output_tokens_details: { reasoning_tokens: 0 },
          total_tokens: used.in + used.out,
        }
      : null,
  }),
};

const INTERACTION: Form = {
  created: 'interaction.created',
  completed: 'interaction.completed',
  failed: 'interaction.completed',
  member: 'interaction',
  object: ({ id, model, status, used }) => ({
    id,
    object: 'interaction',
    model,
    status,
    ...(used ? { usage: { total_input_tokens: used.in, total_output_tokens: used.out, total_thought_tokens: 0 } } : {}),
  }),
};
