import { loadCatalogue } from '../../src/base/catalogue/catalogue.ts';
import { FrameReader, frameOf, WebSocketFault, type WebSocketMessage } from '../../src/base/lib/websocket-frames.ts';
import { callParams, readClientEvent, rewriteCallEvent, saidIn, withEventId } from '../../src/inbound/normalise/socket-event.ts';
import { readServerEvent, sideModels } from '../../src/outbound/connectors/socket-events.ts';
import { type FuzzTarget, must, outcomeOf, piecesOf, splitHead } from './target.ts';

const MILLION = 1_000_000;
const MAX_MESSAGE = 4_096;
const catalogue = loadCatalogue();

/** Frames of one direction. The first line says whose. */
const frames: FuzzTarget = {
  name: 'websocket-frames',
  inputs: MILLION,
  headLines: 1,
  dictionary: [
    '\x81\x00',
    '\x01\x01a',
    '\x80\x01b',
    '\x89\x00',
    '\x88\x02\x03\xe8',
    '\x82\x7e\x00\x80',
    '\x82\x7f',
    '\x81\x81\x00\x00\x00\x00a',
    '\xc1',
    '\x01\x00',
    '\x00\x00'.repeat(2_000),
    '\x00\x01a'.repeat(2_000),
    '\x89\x00'.repeat(2_000),
  ],
  run(input) {
    const { head, rest } = splitHead(input, 1);
    const masked = head[0] === 'client';
    const whole = read([rest], masked);
    const pieces = read(piecesOf(rest), masked);
    must(summary(whole) === summary(pieces), 'frames say the same however they are cut');
    for (const { opcode, payload } of whole.messages) {
      must(payload.length <= MAX_MESSAGE, 'no message is larger than the limit');
      const again = read([Buffer.concat(frameOf(opcode, payload, masked))], masked);
      must(again.messages.length === 1 && again.messages[0]?.payload.equals(payload) === true, 'what is written is read again');
    }
    return `${masked} ${whole.fault} ${whole.messages.map(({ opcode }) => opcode).join()}`.slice(0, 40);
  },
};

interface Read {
  readonly messages: readonly WebSocketMessage[];
  readonly fault: number | undefined;
}

function read(pieces: readonly Buffer[], masked: boolean): Read {
  const messages: WebSocketMessage[] = [];
  const reader = new FrameReader(masked, MAX_MESSAGE);
  try {
    // Its bytes may be changed in place.
    for (const piece of pieces) {
      reader.push(Buffer.from(piece));
      for (let message = reader.next(); message !== undefined; message = reader.next()) messages.push(message);
    }
  } catch (error) {
    if (!(error instanceof WebSocketFault)) throw error;
    return { messages, fault: error.code };
  }
  must(reader.held <= MAX_MESSAGE, 'no more is held than a message may have');
  return { messages, fault: undefined };
}

function summary({ messages, fault }: Read): string {
  return JSON.stringify([fault, messages.map(({ opcode, payload }) => [opcode, payload.toString('base64')])]);
}

/** Events of clients and servers. The first line names the dialect of the handshake. */
const events: FuzzTarget = {
  name: 'socket-event',
  inputs: MILLION,
  headLines: 1,
  dictionary: [
    '{"type":"response.create"',
    '"Type":',
    '"response":{',
    '"session":{"model":"m"}',
    '"usage":{"input_tokens":1',
    '"status":"failed"',
    '"event_id":"e"',
    '"stream_id":"s"',
    '"max_output_tokens":"inf"',
    '\\u0065',
    '['.repeat(2_000),
    '"delta":{"a":'.repeat(100),
    '1,'.repeat(20_000),
  ],
  run(input) {
    const { head, rest } = splitHead(input, 1);
    const dialect = catalogue.dialect(head[0] ?? '');
    const rule = dialect?.socket;
    if (!dialect || !rule) return 'no socket';
    const server = outcomeOf(['upstream_protocol'], () => readServerEvent(rest, rule, rule.call ?? dialect)).value;
    if (server !== undefined) JSON.stringify(server.data);
    for (const count of Object.values(server?.usage ?? {})) must(Number.isSafeInteger(count) && count >= 0, 'tokens are whole numbers');
    const { value: event, code } = outcomeOf(['ambiguous_body', 'body_too_deep'], () => readClientEvent(rest, rule));
    if (event === undefined) return `${dialect.id} ${code} ${server?.kind}`;
    sideModels(saidIn(event, 'session'), rule);
    const params = callParams({}, saidIn(event, rule.createIn), undefined);
    must(params['stream'] === true, 'every call on a socket streams');
    const named = withEventId(event, 'gw_1');
    must(typeof (JSON.parse(named.text) as Record<string, unknown>)['event_id'] === 'string', 'an event has a name afterwards');
    const call = { ...named, paramsIn: rule.createIn, modelIsFixed: rule.updates.length > 0 };
    const changed = rewriteCallEvent(call, [{ key: 'action.params.max_output_tokens', to: 5 }]);
    if (changed === undefined) return `${dialect.id} no place ${server?.kind}`;
    const again = outcomeOf(['ambiguous_body', 'body_too_deep'], () => readClientEvent(changed, rule));
    const said = again.value && saidIn(again.value, rule.createIn);
    must(again.value === undefined || (said as Record<string, unknown>)['max_output_tokens'] === 5, 'a change is there afterwards');
    return `${dialect.id} ${event.type === rule.create} ${rule.updates.includes(event.type)} ${server?.kind}`;
  },
};

export const SOCKET_TARGETS: readonly FuzzTarget[] = [frames, events];
