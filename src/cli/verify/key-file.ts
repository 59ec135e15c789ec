import { readKeyList } from '../../ledger/ledger-answers.ts';
import { LedgerError } from '../../ledger/ledger-error.ts';
import type { ListedKey } from '../../ledger/ledger-keys.ts';
import { type CliIo, Unusable } from '../command.ts';
import { readJsonFile } from './evidence-files.ts';

/** The ledger keys in a file as `/keys` answers. @throws Unusable when it has none */
export async function keysInFile(file: string, io: CliIo): Promise<readonly ListedKey[]> {
  const value = await readJsonFile(file, io);
  try {
    const keys = readKeyList(value);
    if (keys.length === 0) throw new LedgerError('there is no ledger key in it');
    return keys;
  } catch (error) {
    if (error instanceof LedgerError) throw new Unusable(`${file}: ${error.message}`, { cause: error });
    throw error;
  }
}
