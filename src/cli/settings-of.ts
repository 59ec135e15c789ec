import { type Config, loadConfig } from '../base/config/config.ts';
import { ConfigError } from '../base/config/settings-reader.ts';
import { terminalOutput } from '../base/lib/shown-text.ts';
import { type CliIo, EXIT_NO, EXIT_USAGE, Unusable, UsageError } from './command.ts';
import { type AskedGateway, type FoundGateway, foundConfig } from './gateways/find-gateway.ts';

/** Settings of a gateway, and which one that was started here they are of. */
export type GatewaySettings = Config & { readonly found?: FoundGateway | undefined };

/**
 * The settings of the gateway that is meant (decision 12.15): those of this command, over those of a gateway that was
 * started here.
 * @param asked what its options name
 * @throws UsageError that names what is wrong
 */
export function settingsOf(io: Pick<CliIo, 'env'>, asked?: AskedGateway): GatewaySettings {
  return settingsBy(() => {
    const { config, found } = foundConfig(io.env, asked);
    return { ...config, found };
  });
}

/** Those of this command alone, as of a gateway that it starts. @throws UsageError that names what is wrong */
export function shellSettings(io: Pick<CliIo, 'env'>): GatewaySettings {
  return settingsBy(() => loadConfig(io.env).config);
}

function settingsBy(read: () => GatewaySettings): GatewaySettings {
  try {
    return read();
  } catch (error) {
    if (error instanceof ConfigError) throw new UsageError(error.message, { cause: error });
    throw error;
  }
}

/** Runs what works by the settings alone, and says on one line why it does not. @throws Unusable */
export async function bySettings(name: string, io: CliIo, work: (config: Config) => Promise<number>): Promise<number> {
  try {
    return await work(loadConfig(io.env).config);
  } catch (error) {
    if (!(error instanceof Error) || error instanceof Unusable) throw error;
    io.stderr(`gw ${name}: ${terminalOutput(error.message)}\n`);
    return error instanceof ConfigError ? EXIT_USAGE : EXIT_NO;
  }
}
