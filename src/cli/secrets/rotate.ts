import { readKeyFile, rotateSecrets } from '../../app/rotate-secrets.ts';
import { ConfigError, loadConfig } from '../../base/config/config.ts';
import { StoreError } from '../../storage/contract/store.ts';
import { type Command, EXIT_NO, EXIT_OK, EXIT_USAGE } from '../command.ts';

/** Gives the stored secrets of a stopped gateway a new key. */
export const rotate: Command = {
  name: 'secrets rotate',
  usage: '[--new-key-file FILE]',
  summary:
    'Encrypts the stored secrets of a stopped gateway with a new key; with GW_SECRETS_KEY set, FILE holds the new key (32 bytes in base64).',
  async run(args, io) {
    const file = args[0] === '--new-key-file' && args.length === 2 ? args[1] : undefined;
    if (args.length > 0 && file === undefined) {
      io.stderr('usage: gw secrets rotate [--new-key-file FILE]\n');
      return EXIT_USAGE;
    }
    try {
      const { config } = loadConfig(io.env);
      if (config.secretsKey !== undefined && file === undefined) {
        io.stderr('gw secrets rotate: GW_SECRETS_KEY is set; name a file with the new key by --new-key-file\n');
        return EXIT_USAGE;
      }
      const count = await rotateSecrets(config, file === undefined ? undefined : await readKeyFile(file));
      const then = config.secretsKey === undefined ? '' : ' Set GW_SECRETS_KEY to the new key before the next start.';
      io.stdout(`${count} secret(s) have a new key.${then}\n`);
      return EXIT_OK;
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      io.stderr(`gw secrets rotate: ${isInUse(error) ? 'a gateway runs on this data folder; stop it first' : error.message}\n`);
      return error instanceof ConfigError ? EXIT_USAGE : EXIT_NO;
    }
  },
};

function isInUse(error: Error): boolean {
  return error instanceof StoreError && error.code === 'in_use';
}
