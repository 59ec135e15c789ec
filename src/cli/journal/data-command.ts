import { loadConfig } from '../../base/config/config.ts';
import { ConfigError } from '../../base/config/settings-reader.ts';
import { terminalOutput } from '../../base/lib/shown-text.ts';
import { type CliIo, EXIT_NO, EXIT_USAGE } from '../command.ts';

/** Runs what works on the data folder that the settings name, and says on one line why it does not. */
export async function onDataFolder(name: string, io: CliIo, work: (dataDir: string) => Promise<number>): Promise<number> {
  try {
    return await work(loadConfig(io.env).config.dataDir);
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    io.stderr(`gw ${name}: ${terminalOutput(error.message)}\n`);
    return error instanceof ConfigError ? EXIT_USAGE : EXIT_NO;
  }
}
