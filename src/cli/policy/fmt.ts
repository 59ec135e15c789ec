import { readdir, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { YamlFormatError } from '../../base/lib/yaml-format.ts';
import { formatPolicy, isPolicyText } from '../../policy-tools/format.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK, UsageError } from '../command.ts';
import { printJson, terminalText } from '../terminal-text.ts';
import { counted } from './check-command.ts';
import { type Document, readDocument, readOptions, UnreadablePath, unreadable } from './policy-target.ts';

/** Lays policy files out in the one canonical way. */
export const format: Command = {
  name: 'policy fmt',
  usage: '[--check] [--json] <PATH… | ->',
  summary:
    'Lays out bundles, rule files and suites in one way; comments and meaning stay. --check writes nothing; exit code 1 when a file is not formatted. --json: which files, with -: the text.',
  run: runFormat,
};

async function runFormat(args: readonly string[], io: CliIo): Promise<number> {
  const { values, paths } = readOptions(args, { check: 'boolean', json: 'boolean' });
  if (paths.length === 0) throw new UsageError('give files or folders, or - for standard input');
  if (paths.includes('-')) return formatInput(paths, values, io);
  const check = values.check === true;
  const { json = false } = values;
  const said = json ? { ...io, stdout: () => undefined } : io;
  const results: FileResult[] = [];
  const changedFiles: string[] = [];
  for (const path of paths) {
    for (const file of await policyFiles(path)) {
      const result = await formatFile(file, file === path, check, said);
      results.push(result);
      if (result === 'changed') changedFiles.push(file);
    }
  }
  const changed = changedFiles.length;
  const files = results.filter((result) => result !== 'other').length;
  if (json) printJson({ files, changed: changedFiles, written: !check }, io);
  else io.stdout(`${counted(files, 'file')}, ${changed} ${check ? 'not formatted' : 'changed'}\n`);
  return check && changed > 0 ? EXIT_NO : EXIT_OK;
}

/** `other`: a file of a folder that is no policy file. */
type FileResult = 'changed' | 'same' | 'other';

async function formatFile(file: string, named: boolean, check: boolean, io: CliIo): Promise<FileResult> {
  const document = await readDocument(file, io);
  if (!isPolicyText(document.text)) {
    if (named) throw new UnreadablePath(`${file}: this is no bundle, rule file or suite (gw policy check shows why)`);
    return 'other';
  }
  const formatted = formattedText(document);
  if (formatted === document.text) return 'same';
  io.stdout(`${check ? 'not formatted' : 'formatted'}  ${terminalText(file)}\n`);
  if (!check) await replace(file, formatted);
  return 'changed';
}

async function formatInput(
  paths: readonly string[],
  { check = false, json = false }: { readonly check?: boolean; readonly json?: boolean },
  io: CliIo,
): Promise<number> {
  if (paths.length > 1) throw new UsageError('- stands alone');
  const document = await readDocument('-', io);
  const formatted = formattedText(document);
  const same = formatted === document.text;
  if (json) printJson({ files: 1, changed: same ? [] : ['-'], written: false, ...(check ? {} : { text: formatted }) }, io);
  else if (!check) io.stdout(formatted);
  return check && !same ? EXIT_NO : EXIT_OK;
}

function formattedText({ name, text }: Document): string {
  try {
    return formatPolicy(text);
  } catch (error) {
    if (error instanceof YamlFormatError) throw new UnreadablePath(`${name}: left as it is: ${error.message}`, { cause: error });
    throw error;
  }
}

async function policyFiles(path: string): Promise<readonly string[]> {
  try {
    if (!(await stat(path)).isDirectory()) return [path];
    const names = await readdir(path, { recursive: true });
    return names
      .filter((name) => /\.ya?ml$/.test(name) && !/(?:^|[\\/])\./.test(name))
      .sort()
      .map((name) => join(path, name));
  } catch (error) {
    throw unreadable(path, error);
  }
}

/** A reader, or a power cut, sees the old text or the new one. */
async function replace(path: string, text: string): Promise<void> {
  try {
    const target = await realpath(path);
    const temporary = `${target}.gw-fmt`;
    try {
      await writeFile(temporary, text, { mode: (await stat(target)).mode });
      await rename(temporary, target);
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
  } catch (error) {
    throw unreadable(path, error);
  }
}
