import { readKeyFile } from '../../base/lib/secret-key-file.ts';
import { terminalOutput } from '../../base/lib/shown-text.ts';
import { StoreError } from '../../storage/contract/store.ts';
import { parseOptions } from '../checked-arguments.ts';
import { type Command, EXIT_NO, EXIT_OK, UsageError } from '../command.ts';
import { JSON_OPTION, printJson } from '../terminal-text.ts';
import { controlPlaneSettingsOf } from './control-plane-client.ts';

/** Gives the stored secrets of a stopped control plane a new key. */
export const rotatePlaneSecretsCommand: Command = {
  name: 'control-plane secrets rotate',
  usage: '[--new-key-file FILE] [--json]',
  summary:
    'Encrypts the stored secrets of a stopped control plane with a new key; with CP_SECRETS_KEY set, FILE holds the new key (32 bytes in base64).',
  async run(args, io) {
    const { 'new-key-file': file, json = false } = parseOptions(args, { 'new-key-file': { type: 'string' }, ...JSON_OPTION });
    const settings = controlPlaneSettingsOf(io);
    const configured = settings.secretsKey !== undefined;
    if (configured && file === undefined) throw new UsageError('CP_SECRETS_KEY is set; name a file with the new key by --new-key-file');
    try {
      // Loaded here, so that the small commands do not wait for it.
      const { rotatePlaneSecrets } = await import('../../control-plane/app/rotate-plane-secrets.ts');
      const count = await rotatePlaneSecrets(settings, file === undefined ? undefined : await readKeyFile(file));
      const then = configured ? ' Set CP_SECRETS_KEY to the new key before the next start.' : '';
      if (json) printJson({ secrets: count, set_secrets_key: configured }, io);
      else io.stdout(`${count} secret(s) have a new key.${then}\n`);
      return EXIT_OK;
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      const inUse = error instanceof StoreError && error.code === 'in_use';
      const why = inUse ? 'a control plane runs on this data folder; stop it first' : terminalOutput(error.message);
      io.stderr(`gw control-plane secrets rotate: ${why}\n`);
      return EXIT_NO;
    }
  },
};
