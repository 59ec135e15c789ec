import { loadConfig } from '../../base/config/config.ts';
import { ConfigError } from '../../base/config/settings-reader.ts';
import { readKeyFile } from '../../base/lib/secret-key-file.ts';
import { terminalOutput } from '../../base/lib/shown-text.ts';
import { StoreError } from '../../storage/contract/store.ts';
import { parseOptions } from '../checked-arguments.ts';
import { type Command, EXIT_NO, EXIT_OK, EXIT_USAGE } from '../command.ts';
import { JSON_OPTION, printJson } from '../terminal-text.ts';

/** Gives the stored secrets of a stopped gateway a new key. */
export const rotate: Command = {
  name: 'secrets rotate',
  usage: '[--new-key-file FILE] [--json]',
  summary:
    'Encrypts the stored secrets of a stopped gateway with a new key; with GW_SECRETS_KEY set, FILE holds the new key (32 bytes in base64).',
  async run(args, io) {
    const { 'new-key-file': file, json = false } = parseOptions(args, { 'new-key-file': { type: 'string' }, ...JSON_OPTION });
    try {
      const { config } = loadConfig(io.env);
      if (config.secretsKey !== undefined && file === undefined) {
        io.stderr('gw secrets rotate: GW_SECRETS_KEY is set; name a file with the new key by --new-key-file\n');
        return EXIT_USAGE;
      }
      const { rotateSecrets } = await import('../../app/rotate-secrets.ts');
      const count = await rotateSecrets(config, file === undefined ? undefined : await readKeyFile(file));
      const configured = config.secretsKey !== undefined;
      const then = configured ? ' Set GW_SECRETS_KEY to the new key before the next start.' : '';
      if (json) printJson({ secrets: count, set_secrets_key: configured }, io);
      else io.stdout(`${count} secret(s) have a new key.${then}\n`);
      return EXIT_OK;
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      io.stderr(
        `gw secrets rotate: ${isInUse(error) ? 'a gateway runs on this data folder; stop it first' : terminalOutput(error.message)}\n`,
      );
      return error instanceof ConfigError ? EXIT_USAGE : EXIT_NO;
    }
  },
};

function isInUse(error: Error): boolean {
  return error instanceof StoreError && error.code === 'in_use';
}
