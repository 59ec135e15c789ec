import { type Config, loadConfig } from '../base/config/config.ts';
import { ConfigError } from '../base/config/settings-reader.ts';
import { type CliIo, UsageError } from './command.ts';

/** The settings of a gateway that is started like this command. @throws UsageError that names what is wrong */
export function settingsOf(io: CliIo): Config {
  try {
    return loadConfig(io.env).config;
  } catch (error) {
    if (error instanceof ConfigError) throw new UsageError(error.message, { cause: error });
    throw error;
  }
}
