import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { readRegularFile } from '../../base/lib/regular-file.ts';
import { codeOf, messageOf } from '../../base/lib/thrown.ts';
import { decodeUtf8 } from '../../base/lib/utf8.ts';
import { type CliIo, Unusable } from '../command.ts';

/** Of a list; the gateway takes no more. */
const MAX_LIST_BYTES = 16 * 1024 * 1024;
/** The gateway asks an address for a minute at most, and reads what comes. */
export const LIST_TIMEOUT_MS = 150_000;
/** How it is written in usage texts. */
export const LIST_USAGE = '[FILE | URL | shipped]';
export const LIST_HELP = `  FILE     a price list in the published form, read here; - is standard input
  URL      an https address, which the gateway asks
  shipped  the list of the package
  without  what GW_PRICE_LIST of the gateway names
`;

/** What is asked of a gateway about a list: members of the body. */
export interface GivenListBody {
  readonly list?: string;
  readonly name?: string;
  readonly date?: string;
  readonly source?: string;
}

/** A list as a person names it. @throws Unusable for a file that cannot be read */
export async function givenList(word: string | undefined, io: CliIo): Promise<GivenListBody> {
  if (word === undefined) return {};
  if (word === 'shipped' || word.includes('://')) return { source: word };
  try {
    if (word === '-') return { list: textOf(await io.stdin(MAX_LIST_BYTES)), name: 'standard input' };
    const { mtime } = await stat(word);
    return { list: textOf(await readRegularFile(word, MAX_LIST_BYTES)), name: basename(word), date: mtime.toISOString().slice(0, 10) };
  } catch (error) {
    const why = codeOf(error) === 'ENOENT' ? 'there is no such file' : messageOf(error);
    throw new Unusable(`${word}: ${why}`, { cause: error });
  }
}

function textOf(bytes: Uint8Array): string {
  const text = decodeUtf8(bytes);
  if (typeof text !== 'string') throw new Error('it is not UTF-8 text');
  return text;
}
