import type { Dialect } from '../../base/catalogue/types.ts';
import { ELEMENT, JsonPicker } from '../../base/json/json-picker.ts';
import type { Usage } from '../../base/model/usage.ts';
import { compileValuePath, EACH, type Path, type ValuePath } from './answer-paths.ts';
import type { ResponseState } from './stream-finish.ts';
import { says } from './stream-finish.ts';
import { type AnswerFacts, modelName, type UsageReader, usageReader } from './usage-reader.ts';
import { UsageTally } from './usage-tally.ts';

/**
 * Watches the decoded bytes of a JSON answer that is no stream; keeps only what is metered, whatever the size. Never
 * throws.
 */
export interface AnswerReader {
  push(chunk: Uint8Array): void;
  /** After the last byte. */
  end(): WholeAnswerFacts;
}

export interface WholeAnswerFacts extends AnswerFacts {
  /** The answer says an error, whatever its status: some relays answer 200 with one. */
  readonly failed?: true;
}

const NOTHING: AnswerReader = { push() {}, end: () => ({}) };
const ERROR: Path = ['error'];

interface Plan {
  readonly reader: UsageReader | undefined;
  readonly paths: readonly Path[];
  /** What to do with a value at each of the paths; undefined: it is a model. */
  readonly uses: readonly (((tally: UsageTally, value: unknown) => void) | undefined)[];
}

const plans = new WeakMap<Dialect, Plan>();

/** What to pick from answers of a dialect, made once. */
function planOf(dialect: Dialect): Plan {
  let plan = plans.get(dialect);
  if (plan === undefined) {
    const { usage, modelEcho = [] } = dialect;
    const reader = usage && usageReader(usage);
    const picks =
      reader === undefined
        ? []
        : [
            ...rootPaths(reader.roots).map((path, root) => ({
              path,
              use: (tally: UsageTally, value: unknown) => tally.addUsage(value, root),
            })),
            ...placePicks(reader),
          ];
    const models = modelEcho.map((path) => pickPath(compileValuePath(path)));
    plan = {
      reader,
      paths: [...picks.map(({ path }) => path), ...models, ERROR],
      uses: [...picks.map(({ use }) => use), ...models.map(() => undefined)],
    };
    plans.set(dialect, plan);
  }
  return plan;
}

/** Something to be picked from a text, and who is told of it. */
interface UsagePick {
  readonly path: Path;
  readonly use: (tally: UsageTally, value: unknown) => void;
}

/** The paths of usage objects that are picked as a whole; an answer that is one itself is none. */
export function rootPaths(roots: readonly ValuePath[]): readonly Path[] {
  return roots.filter(({ steps }) => steps.length > 0).map(pickPath);
}

/** What stands around usage objects, and each of their places where the answer itself is one. */
export function placePicks({ roots, places, inUsage }: UsageReader): readonly UsagePick[] {
  const isUsage = roots.some(({ steps }) => steps.length === 0);
  return places.flatMap(({ path }, at) =>
    at >= inUsage || isUsage ? [{ path: pickPath(path), use: (tally: UsageTally, value: unknown) => tally.addPicked(at, value) }] : [],
  );
}

/**
 * Elements are not told apart while they pass: `[name=value]` stands for all of them, so only paths in usage objects
 * have it.
 */
function pickPath({ steps }: ValuePath): Path {
  return steps.map((step) => (step === EACH || typeof step !== 'string' ? ELEMENT : step));
}

/**
 * A reader for answers of this dialect: the same facts as `readUsage` on the parsed answer, for a fraction of the work
 * when the answer is large.
 * @param state is told which response the answer is, and whether it has ended
 */
export function createAnswerReader(dialect: Dialect | undefined, state?: ResponseState): AnswerReader {
  if (dialect === undefined || (dialect.usage === undefined && dialect.modelEcho === undefined)) return NOTHING;
  const { reader, paths, uses } = planOf(dialect);
  const tally = reader && new UsageTally(reader);
  let model: string | undefined;
  let failed = false;
  const stateAt = paths.length;
  const errorAt = stateAt - 1;
  const picker = new JsonPicker(state ? [...paths, ...state.paths] : paths, (path, value) => {
    if (path >= stateAt) state?.take(path === stateAt ? 0 : 1, value);
    else if (path === errorAt) failed = says(value);
    else {
      const use = uses[path];
      if (use === undefined) model = modelName(value) ?? model;
      else if (tally) use(tally, value);
    }
  });
  return {
    push: (chunk) => picker.push(latin1(chunk)),
    end() {
      picker.end();
      const facts: { usage?: Usage; model?: string; failed?: true } = {};
      const usage = tally?.usage;
      if (usage) facts.usage = usage;
      if (model) facts.model = model;
      if (failed) facts.failed = true;
      return facts;
    },
  };
}

/** Bytes as text of the same length: what is searched is ASCII, and offsets stay byte offsets. */
export function latin1(bytes: Uint8Array): string {
  const buffer = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return buffer.toString('latin1');
}
