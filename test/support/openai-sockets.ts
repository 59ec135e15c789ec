import type { IncomingMessage } from 'node:http';
import type { WebSocket } from 'ws';

/** What every response of the stand-in uses. */
export const REALTIME_USAGE = {
  total_tokens: 130,
  input_tokens: 100,
  output_tokens: 30,
  input_token_details: { text_tokens: 40, audio_tokens: 60, cached_tokens: 20 },
  output_token_details: { text_tokens: 10, audio_tokens: 20 },
};
export const RESPONSES_USAGE = {
  input_tokens: 36,
  input_tokens_details: { cached_tokens: 4 },
  output_tokens: 87,
  output_tokens_details: { reasoning_tokens: 9 },
};

type Json = Record<string, unknown>;

/**
 * Speaks the events of OpenAI's realtime and responses sockets, as far as the gateway reads them; told what to do by
 * the events it gets.
 */
export function openAiSocket(socket: WebSocket, request: IncomingMessage): void {
  const url = new URL(request.url ?? '/', 'http://upstream');
  if (url.pathname.endsWith('/responses')) responses(socket);
  else realtime(socket, url.searchParams.get('model') ?? url.searchParams.get('deployment') ?? '');
}

function responses(socket: WebSocket): void {
  let count = 0;
  socket.on('message', (data: Buffer) => {
    const event = JSON.parse(data.toString()) as Json;
    const send = (type: string, more: Json): void => socket.send(JSON.stringify({ type, sequence_number: 0, ...more }));
    if (event['type'] !== 'response.create') return;
    if (event['input'] === 'bad')
      return send('error', { status: 400, error: { type: 'invalid_request_error', code: 'bad', message: 'no', param: null } });
    const response = { id: `resp_${++count}`, model: `${String(event['model'])}-2024-07-18` };
    send('response.created', { response: { ...response, status: 'in_progress' } });
    if (event['input'] === 'die') return socket.terminate();
    if (event['input'] === 'hang') return;
    send('response.output_text.delta', { item_id: 'i', delta: 'Hello "response.completed"' });
    send('response.completed', { response: { ...response, status: 'completed', usage: RESPONSES_USAGE } });
  });
}

function realtime(socket: WebSocket, model: string): void {
  let count = 0;
  const session: Json = { type: 'realtime', model, max_output_tokens: 'inf' };
  const send = (type: string, more: Json): void => socket.send(JSON.stringify({ type, event_id: 'event_x', ...more }));
  const begin = (): string => {
    const id = `resp_${++count}`;
    send('response.created', { response: { id, status: 'in_progress' } });
    send('response.output_text.delta', { response_id: id, delta: 'Hi' });
    return id;
  };
  const end = (id: string, status = 'completed'): void => send('response.done', { response: { id, status, usage: REALTIME_USAGE } });
  send('session.created', { session });
  const on: Record<string, (event: Json) => void> = {
    'session.update': (event) => {
      const change = event['session'] as Json;
      if (!String(change['instructions']).startsWith('unanswered')) send('session.updated', { session: Object.assign(session, change) });
    },
    'response.create': (event) => {
      if ((event['response'] as Json | undefined)?.['conversation'] === 'bad') {
        send('error', { error: { type: 'invalid_request_error', code: 'bad', message: 'no', event_id: event['event_id'] } });
      } else end(begin());
    },
    // Voice activity detection: the server begins by itself.
    'input_audio_buffer.commit': () => {
      const id = begin();
      if (session['instructions'] !== 'wait') end(id);
    },
    'response.cancel': (event) => end(String(event['response_id']), 'cancelled'),
    'conversation.item.create': () =>
      send('conversation.item.input_audio_transcription.completed', {
        item_id: 'i',
        transcript: 'secret words',
        usage: { type: 'tokens', input_tokens: 14, output_tokens: 5, total_tokens: 19 },
      }),
  };
  socket.on('message', (data: Buffer) => {
    const event = JSON.parse(data.toString()) as Json;
    on[String(event['type'])]?.(event);
  });
}
