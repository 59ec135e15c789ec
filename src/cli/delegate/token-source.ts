import { DelegationError } from '../../decide/delegation/delegation-error.ts';
import { type CliIo, Unusable } from '../command.ts';
import { readDocument } from '../policy/input.ts';

/** Shorter texts that are no file are mistyped names of one. */
const MIN_TOKEN = 100;

/** A token as people have it: standard input for `-`, a file that is there, or the text itself. @throws Unusable */
export async function readToken(given: string, io: CliIo): Promise<string> {
  if (given === '-') return (await readDocument('-', io)).text.trim();
  try {
    return (await readDocument(given, io)).text.trim();
  } catch (error) {
    if (error instanceof Unusable && given.length > MIN_TOKEN && !given.includes('.')) return given;
    throw error;
  }
}

/** What is made of a token, or the mistake in it as one line for a person. @throws Unusable */
export function sound<T>(make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (error instanceof DelegationError) throw new Unusable(`${error.message} (${error.code})`, { cause: error });
    throw error;
  }
}
