import { isJsonObject } from '../../base/json/json-object.ts';
import { EXAMPLE_ANSWERS } from './example-answers.ts';
import { EXAMPLES } from './examples.ts';

type Json = Readonly<Record<string, unknown>>;

/** What is asked in the example of an operation, and what came back. */
export interface ShownExample {
  readonly args: Json;
  readonly answer: unknown;
}

/** Of which operation, and which member of its answer. */
const REFERENCE = /^\{(mgmt\.[\w.]+)#([\w.]+)\}$/;

/** The example of an operation; undefined: it has none. */
export function exampleOf(id: string): ShownExample | undefined {
  const example = EXAMPLES.find((one) => one.id === id);
  const answer = EXAMPLE_ANSWERS[id];
  if (example === undefined || answer === undefined) return undefined;
  return {
    args: exampleArgs(example.args ?? {}, (of) => JSON.parse(EXAMPLE_ANSWERS[of] ?? 'null') as unknown),
    answer: JSON.parse(answer) as unknown,
  };
}

/**
 * Arguments with what other examples answered in the place of references.
 * @param answerOf the answer of an operation
 */
export function exampleArgs(args: Json, answerOf: (id: string) => unknown): Json {
  return Object.fromEntries(
    Object.entries(args).map(([name, value]) => {
      const [, of, path] = (typeof value === 'string' && REFERENCE.exec(value)) || [];
      return [name, of === undefined || path === undefined ? value : memberAt(answerOf(of), path)];
    }),
  );
}

function memberAt(answer: unknown, path: string): unknown {
  let value = answer;
  for (const part of path.split('.'))
    value = Array.isArray(value) ? (value as unknown[])[Number(part)] : isJsonObject(value) ? value[part] : undefined;
  return value;
}
