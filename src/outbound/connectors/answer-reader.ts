import type { Dialect } from '../../base/catalogue/types.ts';
import { JsonPicker } from './json-picker.ts';
import { type AnswerFacts, compilePath, modelName, usageReader } from './usage.ts';

/** Watches the decoded bytes of a JSON answer that is no stream; keeps only what is metered, whatever the size. Never throws. */
export interface AnswerReader {
  push(chunk: Uint8Array): void;
  /** After the last byte. */
  end(): AnswerFacts;
}

const NOTHING: AnswerReader = { push() {}, end: () => ({}) };

/** A reader for answers of this dialect: the same facts as `readUsage` on the parsed answer, for a fraction of the work when the answer is large. */
export function createAnswerReader(dialect: Dialect | undefined): AnswerReader {
  const rule = dialect?.usage;
  const echo = dialect?.modelEcho;
  if (rule === undefined && echo === undefined) return NOTHING;
  const reader = rule === undefined ? undefined : usageReader(rule);
  const paths = [...(reader ? [reader.root] : []), ...(echo === undefined ? [] : [compilePath(echo)])];
  let usage: unknown;
  let model: string | undefined;
  const picker = new JsonPicker(paths, (path, value) => {
    if (reader !== undefined && path === 0) usage = value;
    else model = modelName(value);
  });
  return {
    push: (chunk) => picker.push(latin1(chunk)),
    end() {
      picker.end();
      const read = reader?.read(usage);
      return { ...(read ? { usage: read } : {}), ...(model ? { model } : {}) };
    },
  };
}

/** Bytes as text of the same length: what is searched is ASCII, and offsets stay byte offsets. */
export function latin1(bytes: Uint8Array): string {
  const buffer = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return buffer.toString('latin1');
}
