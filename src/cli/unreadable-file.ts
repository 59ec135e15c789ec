import { codeOf, messageOf } from '../base/lib/thrown.ts';

/** What people are told of the usual ways in which a file cannot be read or made, by the code of the system. */
const WORDS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'it is a folder, not a file',
  EACCES: 'this user may not read it, or not write there',
  EEXIST: 'it is there already, and is not overwritten: name another file',
};

/** Why a file cannot be read or made, without the words of the system where it is a usual reason. */
export function whyUnreadable(error: unknown): string {
  const code = codeOf(error);
  return (Object.hasOwn(WORDS, code) ? WORDS[code] : undefined) ?? messageOf(error);
}
