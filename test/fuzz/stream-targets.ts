import { brotliDecompressSync, gunzipSync, inflateRawSync, inflateSync } from 'node:zlib';
import { loadCatalogue } from '../../src/base/catalogue/catalogue.ts';
import type { Dialect } from '../../src/base/catalogue/types.ts';
import { isJson } from '../../src/base/json/json-check.ts';
import { createDecoder } from '../../src/base/lib/decoder.ts';
import type { Usage } from '../../src/base/model/usage.ts';
import { createAnswerReader } from '../../src/outbound/connectors/answer-reader.ts';
import { AwsFrames } from '../../src/outbound/connectors/aws-frames.ts';
import { createStreamTap } from '../../src/outbound/connectors/create-stream-tap.ts';
import { EventReader } from '../../src/outbound/connectors/event-reader.ts';
import { SeenUsage } from '../../src/outbound/connectors/seen-usage.ts';
import { UsageHider } from '../../src/outbound/connectors/usage-hider.ts';
import { readUsage } from '../../src/outbound/connectors/usage-reader.ts';
import { withChecksums } from '../support/aws-events.ts';
import { type FuzzTarget, must, piecesOf, splitHead } from './target.ts';

const MILLION = 1_000_000;
const catalogue = loadCatalogue();

const JSON_TOKENS = [
  '{',
  '}',
  '[',
  ']',
  '"',
  '\\"',
  '\\\\',
  '\\u0000',
  '\\ud800',
  ':',
  ',',
  'null',
  'true',
  '1e999',
  '-0',
  '"usage":{',
  '"usage":null',
  '"prompt_tokens":7',
  '"output_tokens":1.5',
  '"model":"m"',
  '"error":{}',
  '"type":"error"',
  '{"type":"message_stop"}',
  '"usageMetadata":{"promptTokenCount":1}',
  '"__proto__":{}',
  '[[[[[[[[',
  '{"a":{"a":{"a":',
  '['.repeat(8_000),
  ']'.repeat(8_000),
  '{"a":'.repeat(6_000),
  '"usage":{"prompt_tokens":',
  '"delta":{"content":',
  '"choices":[{',
  '"index":1',
  '"finish_reason":"stop"',
  '1e308',
  '-7',
  '"7"',
];

/** Line ends, and the beginning of nearly every line. */
const LINE_TOKENS = ['\n', '\r', '\r\n', '\n\n', 'data: '];

/** Names that no two are equal, as a report without an end has them. */
const MANY_NAMES = Array.from({ length: 500 }, (_, at) => `"n${at}":${at}`).join();

/** The event streams of every dialect. The first line names the dialect and the Content-Type. */
const eventStream: FuzzTarget = {
  name: 'event-stream',
  inputs: MILLION,
  headLines: 1,
  dictionary: [
    ...JSON_TOKENS,
    ...LINE_TOKENS,
    'data:',
    'data',
    'event: ',
    'event',
    'id: 1\n',
    ': ping\n\n',
    'data: [DONE]',
    'data: [DONE]\n\n',
    'event: message_stop\n',
    '\xef\xbb\xbf',
    MANY_NAMES,
    'data\n'.repeat(1_000),
  ],
  run(input) {
    const { head, rest } = splitHead(input, 1);
    const [id = '', ...type] = (head[0] ?? '').split(' ');
    const dialect = catalogue.dialect(id);
    const whole = watch(dialect, type.join(' '), [rest]);
    const pieces = watch(dialect, type.join(' '), piecesOf(rest));
    must(JSON.stringify(whole.facts) === JSON.stringify(pieces.facts), 'a stream says the same however it is cut');
    return `${dialect?.id} ${whole.facts.outcome} ${whole.held} ${whole.facts.usage === undefined} ${whole.facts.model === undefined}`;
  },
};

/**
 * AWS event streams, as they are and with the checksums that their bytes have now. The first line names the dialect.
 */
const awsEventStream: FuzzTarget = {
  name: 'aws-event-stream',
  inputs: MILLION,
  headLines: 1,
  dictionary: [
    ...JSON_TOKENS,
    '\x00\x00\x00\x10\x00\x00\x00\x00',
    '\x00\x00\x00\x20\x00\x00\x00\x08',
    '\xff\xff\xff\xff',
    '\x0b:event-type\x07\x00\x08metadata',
    '\x0d:message-type\x07\x00\x05event',
    '\x0d:message-type\x07\x00\x09exception',
    '\x01n\x00',
    '\x01n\x02',
    '\x01n\x06\xff\xff',
    '\x01n\x09',
    '{"usage":{"inputTokens":7}}',
    '{"bytes":"eyJ0eXBlIjoibWVzc2FnZV9zdG9wIn0="}',
  ],
  run(input) {
    const { head, rest } = splitHead(input, 1);
    const dialect = catalogue.dialect(head[0] ?? '');
    const type = 'application/vnd.amazon.eventstream';
    const labels = [rest, mended(rest)].map((bytes) => {
      const whole = watch(dialect, type, [bytes]);
      must(
        JSON.stringify(whole.facts) === JSON.stringify(watch(dialect, type, piecesOf(bytes)).facts),
        'a stream says the same however it is cut',
      );
      return `${whole.facts.outcome} ${whole.held} ${whole.facts.usage === undefined} ${framesIn(bytes)}`;
    });
    return `${dialect?.id} ${labels.join(' ')}`;
  },
};

/**
 * Messages that are read before the first one that is broken; each must begin where the one before says that it ends.
 */
function framesIn(bytes: Buffer): number {
  let at = 0;
  let frames = 0;
  const reader = new AwsFrames(({ start, headers, payload }) => {
    must(start === at, 'a message begins where the one before ends');
    must((payload?.length ?? 0) + headers.size <= bytes.readUInt32BE(at), 'a message is no larger than it says');
    at += bytes.readUInt32BE(at);
    frames++;
  });
  reader.push(bytes);
  return Math.min(frames, 8);
}

/**
 * The same messages as far as their lengths go, whole again: mutations of what checksums cover would get no further
 * than those.
 */
function mended(input: Buffer): Buffer {
  const bytes = Buffer.from(input);
  for (let at = 0; bytes.length - at >= 16; ) {
    const left = bytes.length - at;
    const total = bytes.readUInt32BE(at);
    const length = total < 16 || total > left ? left : total;
    bytes.writeUInt32BE(length, at);
    withChecksums(bytes.subarray(at, at + length));
    at += length;
  }
  return bytes;
}

interface Watched {
  readonly facts: { readonly outcome: string; readonly usage: Usage | undefined; readonly model: string | undefined };
  readonly held: boolean;
}

function watch(dialect: Dialect | undefined, contentType: string, pieces: readonly Buffer[]): Watched {
  const tap = createStreamTap(dialect, contentType);
  let held = false;
  for (const piece of pieces) {
    const offset = tap.push(piece);
    must(Number.isInteger(offset) && offset >= -1 && offset <= piece.length, 'an offset lies inside its chunk');
    must(!held || offset === 0, 'what was held once stays held');
    held = offset !== -1;
  }
  must(held || tap.outcome !== 'complete', 'a stream that says that it ends is held');
  tap.end();
  countsOnly(tap.usage);
  follow(dialect, contentType, pieces, tap.outcome);
  return { facts: { outcome: tap.outcome, usage: tap.usage, model: tap.model }, held };
}

/** The same stream, when what it says is followed. */
function follow(dialect: Dialect | undefined, contentType: string, pieces: readonly Buffer[], outcome: string): void {
  const seen = seenOf(dialect);
  const tap = createStreamTap(dialect, contentType, seen && { seen, passes: () => false });
  for (const piece of pieces) tap.push(piece);
  tap.end();
  must(tap.outcome === outcome, 'a stream ends as it does, followed or not');
  countsOnly(tap.usage);
  countsOnly(seen?.usage);
}

function seenOf(dialect: Dialect | undefined): SeenUsage | undefined {
  return dialect?.deltas && new SeenUsage(dialect.deltas, { tokensIn: 0, outStated: undefined });
}

/** The data of an event that is too large to keep. The first line names the dialect. */
const largeEvent: FuzzTarget = {
  name: 'large-event',
  inputs: MILLION,
  headLines: 1,
  dictionary: [...JSON_TOKENS, MANY_NAMES],
  run(input) {
    const { head, rest } = splitHead(input, 1);
    const dialect = catalogue.dialect(head[0] ?? '');
    const whole = picked(dialect, [rest]);
    must(whole === picked(dialect, piecesOf(rest)), 'an event says the same however it is cut');
    return `${dialect?.id} ${whole.replace(/\d+/g, '0').slice(0, 60)}`;
  },
};

function picked(dialect: Dialect | undefined, pieces: readonly Buffer[]): string {
  if (!dialect?.streaming) return 'no stream';
  const seen = seenOf(dialect);
  const reader = new EventReader(dialect, dialect.streaming, seen);
  const picker = reader.picker();
  for (const piece of pieces) picker.push(piece.toString('latin1'));
  picker.end();
  reader.read('', '');
  countsOnly(reader.usage);
  countsOnly(seen?.usage);
  return JSON.stringify([reader.done, reader.failed, reader.finished, reader.model === undefined, reader.usage, seen?.usage.tokens_out]);
}

/** Streams out of which what reports usage is taken. */
const usageHider: FuzzTarget = {
  name: 'usage-hider',
  inputs: MILLION,
  headLines: 0,
  dictionary: [...JSON_TOKENS, ...LINE_TOKENS, 'data: {"choices":[],"usage":{}}\n\n', ',"usage":null', 'data: [DONE]\n\n'],
  run(input) {
    const whole = shown([input]);
    must(whole.equals(shown(piecesOf(input))), 'what is left is the same however it is cut');
    must(whole.length <= input.length, 'nothing is added');
    must(input.includes('"usage"') || whole.equals(input), 'nothing else is taken out');
    return `${whole.length === input.length} ${whole.length === 0}`;
  },
};

function shown(pieces: readonly Buffer[]): Buffer {
  const hider = new UsageHider();
  return Buffer.concat([...pieces.map((piece) => Buffer.from(hider.push(piece))), Buffer.from(hider.flush())]);
}

/** What may stand in an envelope as it came. */
const jsonCheck: FuzzTarget = {
  name: 'json-check',
  inputs: MILLION,
  headLines: 0,
  dictionary: JSON_TOKENS,
  run(input) {
    const is = isJson(input);
    let parses = true;
    try {
      JSON.parse(input.toString('latin1'));
    } catch {
      parses = false;
    }
    must(!is || parses, 'what is taken for JSON is JSON');
    must(is || !parses || levelsOf(input) > 512, 'what is JSON is taken for it, unless it is deep');
    return `${is} ${parses}`;
  },
};

/** Of a JSON text. */
function levelsOf(text: Buffer): number {
  let level = 0;
  let deepest = 0;
  let inString = false;
  for (let at = 0; at < text.length; at++) {
    const char = String.fromCharCode(text[at] ?? 0);
    if (inString && char === '\\') at++;
    else if (char === '"') inString = !inString;
    else if (!inString && '[{'.includes(char)) deepest = Math.max(deepest, ++level);
    else if (!inString && ']}'.includes(char)) level--;
  }
  return deepest;
}

function countsOnly(usage: Usage | undefined): void {
  for (const count of Object.values(usage ?? {})) must(Number.isSafeInteger(count) && count >= 0, 'tokens are counted in whole numbers');
}

/** Usage and model of an answer, picked from its bytes. The first line names the dialect. */
const answer: FuzzTarget = {
  name: 'answer',
  inputs: MILLION,
  headLines: 1,
  dictionary: JSON_TOKENS,
  run(input) {
    const { head, rest } = splitHead(input, 1);
    const dialect = catalogue.dialect(head[0] ?? '');
    const whole = facts(dialect, [rest]);
    must(whole === facts(dialect, piecesOf(rest)), 'an answer says the same however it is cut');
    let value: unknown;
    try {
      value = JSON.parse(rest.toString('latin1'));
    } catch {
      return `${dialect?.id} malformed ${whole.length > 2}`;
    }
    // Written anew, so that no name is there twice: the picker and the parser may differ in which one they take.
    const text = JSON.stringify(value).replace(/[\u0100-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
    must(
      facts(dialect, piecesOf(Buffer.from(text, 'latin1'))) === JSON.stringify(readUsage(dialect, value)),
      'what is picked is what is parsed',
    );
    return `${dialect?.id} ${whole.includes('usage')} ${whole.includes('model')}`;
  },
};

function facts(dialect: Dialect | undefined, pieces: readonly Buffer[]): string {
  const reader = createAnswerReader(dialect);
  for (const piece of pieces) reader.push(piece);
  const { failed: _, ...read } = reader.end();
  countsOnly(read.usage);
  return JSON.stringify(read);
}

const MAX_DECODED = 256 * 1024;
const SYNC: Readonly<Record<string, (bytes: Buffer) => Buffer>> = {
  gzip: (bytes) => gunzipSync(bytes, { maxOutputLength: 2 * MAX_DECODED }),
  br: (bytes) => brotliDecompressSync(bytes, { maxOutputLength: 2 * MAX_DECODED }),
  deflate: (bytes) => (((bytes[0] ?? 0) & 0x0f) === 8 ? inflateSync : inflateRawSync)(bytes, { maxOutputLength: 2 * MAX_DECODED }),
};

/** Encoded answers. The first line is the Content-Encoding. */
const encoded: FuzzTarget = {
  name: 'encoded-answer',
  inputs: MILLION,
  dear: true,
  headLines: 1,
  dictionary: ['\x28\xb5\x2f\xfd', '\x1f\x8b\x08', '\x00\x00\xff\xff', '\x78\x9c', '\x03', '\x00'],
  async run(input) {
    const { head, rest } = splitHead(input, 1);
    const encoding = (head[0] ?? '').trim();
    const seen: Uint8Array[] = [];
    let bytes = 0;
    const onData = (chunk: Uint8Array): void => {
      bytes += chunk.length;
      seen.push(chunk);
    };
    const decoder = createDecoder(encoding, { maxBytes: MAX_DECODED, onData });
    if (decoder === undefined) return 'unknown encoding';
    for (const piece of piecesOf(rest)) await decoder.push(piece);
    const outcome = await decoder.end();
    must(bytes <= MAX_DECODED, 'no more is handed on than may be');
    const sync = Object.hasOwn(SYNC, encoding) ? SYNC[encoding] : undefined;
    if (outcome === 'complete' && sync !== undefined && rest.length > 0) {
      must(sync(rest).equals(Buffer.concat(seen)), 'what is called complete is what was encoded');
    }
    return `${encoding.slice(0, 8)} ${outcome}`;
  },
};

export const STREAM_TARGETS: readonly FuzzTarget[] = [eventStream, largeEvent, awsEventStream, usageHider, answer, jsonCheck, encoded];
