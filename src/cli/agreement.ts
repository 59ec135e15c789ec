import type { CliIo } from './command.ts';

/**
 * Asks the person at the terminal, and says so where nothing is done.
 * @param question ends with its question mark
 * @returns whether the answer is yes
 */
export async function agrees(question: string, io: CliIo): Promise<boolean> {
  io.stderr(`${question} [y/N] `);
  const yes = await saysYes(io);
  if (!yes) io.stderr('Nothing was changed.\n');
  return yes;
}

async function saysYes({ stdinLines }: CliIo): Promise<boolean> {
  if (stdinLines === undefined) return false;
  for await (const line of stdinLines()) return /^y(?:es)?$/i.test(line.trim());
  return false;
}
