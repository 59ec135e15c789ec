import { isAbsolute, relative } from 'node:path';

/**
 * How a person calls this program again, as a shell takes it: `gw` when an installation has put it where programs are, else Node with the file.
 * @param file what Node was started with
 * @param folder from which
 */
export function programName(file: string | undefined, folder: string): string {
  if (file === undefined || !/\.[cm]?[jt]s$/.test(file)) return 'gw';
  const short = relative(folder, file);
  return `node ${shellWord(short.startsWith('..') || isAbsolute(short) ? file : short)}`;
}

/** As a shell takes it for one word. */
export function shellWord(text: string): string {
  return /^[\w./:-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
