import type { Dialect } from '../../base/catalogue/types.ts';
import { JsonPicker } from '../../base/json/json-picker.ts';
import type { ResponseState } from './response-state.ts';
import {
  type AnswerFacts,
  type Counts,
  compilePath,
  countOf,
  modelName,
  type Path,
  type UsageReader,
  usageReader,
} from './usage-reader.ts';

/** Watches the decoded bytes of a JSON answer that is no stream; keeps only what is metered, whatever the size. Never throws. */
export interface AnswerReader {
  push(chunk: Uint8Array): void;
  /** After the last byte. */
  end(): AnswerFacts;
}

const NOTHING: AnswerReader = { push() {}, end: () => ({}) };

interface Plan {
  readonly reader: UsageReader | undefined;
  /** The usage object, or each of its counts where the answer itself is that object; then the model. */
  readonly paths: readonly Path[];
  readonly modelAt: number;
}

const plans = new WeakMap<Dialect, Plan>();

/** What to pick from answers of a dialect, made once. */
function planOf(dialect: Dialect): Plan {
  let plan = plans.get(dialect);
  if (plan === undefined) {
    const { usage, modelEcho } = dialect;
    const reader = usage && usageReader(usage);
    const counts = reader === undefined ? [] : reader.root.length > 0 ? [reader.root] : reader.paths;
    plan = { reader, paths: [...counts, ...(modelEcho === undefined ? [] : [compilePath(modelEcho)])], modelAt: counts.length };
    plans.set(dialect, plan);
  }
  return plan;
}

/**
 * A reader for answers of this dialect: the same facts as `readUsage` on the parsed answer, for a fraction of the work when the answer is large.
 * @param state is told which response the answer is, and whether it has ended
 */
export function createAnswerReader(dialect: Dialect | undefined, state?: ResponseState): AnswerReader {
  if (dialect === undefined || (dialect.usage === undefined && dialect.modelEcho === undefined)) return NOTHING;
  const { reader, paths, modelAt } = planOf(dialect);
  let counts: Counts = [];
  let model: string | undefined;
  const stateAt = paths.length;
  const picker = new JsonPicker(state ? [...paths, ...state.paths] : paths, (path, value) => {
    if (path >= stateAt) state?.take(path === stateAt ? 0 : 1, value);
    else if (path === modelAt) model = modelName(value);
    else if (reader?.root.length === 0) counts[path] = countOf(value);
    else if (reader) counts = reader.counts(value);
  });
  return {
    push: (chunk) => picker.push(latin1(chunk)),
    end() {
      picker.end();
      const read = reader?.usageOf(counts);
      return { ...(read ? { usage: read } : {}), ...(model ? { model } : {}) };
    },
  };
}

/** Bytes as text of the same length: what is searched is ASCII, and offsets stay byte offsets. */
export function latin1(bytes: Uint8Array): string {
  const buffer = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return buffer.toString('latin1');
}
