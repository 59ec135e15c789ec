import { installedProgram, PROGRAM_VARIABLE } from '../support/program-under-test.ts';

/**
 * Runs a file of tests with the package as a user installs it.
 * @param load imports it, so that nothing of it is read before the program is known
 * @throws Error where it has taken another program
 */
export async function testInstalled(load: () => Promise<unknown>): Promise<void> {
  process.env[PROGRAM_VARIABLE] = 'installed';
  await load();
  const { MAIN } = await import('../support/gateway-process.ts');
  if (MAIN !== installedProgram()) throw new Error(`${MAIN} is tested, not the package`);
}
