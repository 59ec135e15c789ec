import { systemClock } from '../../base/lib/clock.ts';
import { terminalOutput } from '../../base/lib/shown-text.ts';
import { StoreError } from '../../storage/contract/store.ts';
import { agrees } from '../agreement.ts';
import { badValue, parseOptions } from '../checked-arguments.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK, UsageError } from '../command.ts';
import { JSON_OPTION, printJson, terminalText } from '../terminal-text.ts';
import { controlPlaneSettingsOf } from './control-plane-client.ts';

const MOST_REASON = 200;
/** What a reason may hold: it stands in a signed root, and everybody sees it. */
const REASON = /^[^\p{Cc}\p{Cf}\p{Cs}]+$/u;
/** Ledgers that are named in the question. */
const MOST_NAMED = 10;

/** Says of a stopped control plane that its data folder was put back from a backup (decision 13.23). */
export const declareRestoreCommand: Command = {
  name: 'control-plane restored',
  usage: '[--reason TEXT] [--yes] [--json]',
  summary:
    'Declares that the data folder of a stopped control plane was put back from a backup: its ledgers go on with sequences that were never signed, and say so.',
  help: `
  --reason TEXT   why, for everybody to read: it stands in signed roots
  --yes           does not ask
`,
  async run(args, io) {
    const {
      reason,
      yes = false,
      json = false,
    } = parseOptions(args, { reason: { type: 'string' }, yes: { type: 'boolean' }, ...JSON_OPTION });
    if (reason !== undefined && !(reason.length <= MOST_REASON && REASON.test(reason)))
      throw badValue('--reason', `1 to ${MOST_REASON} characters on one line`, reason);
    if (!yes && io.stdinLines === undefined) throw new UsageError('there is nobody to ask: --yes says that it is meant');
    try {
      // Loaded here, so that the small commands do not wait for it.
      const { declareRestore } = await import('../../control-plane/app/declare-restore.ts');
      const declared = await declareRestore(controlPlaneSettingsOf(io), {
        reason,
        clock: systemClock,
        agreed: async (ends) => yes || agrees(questionOf(ends), io),
      });
      if (declared === undefined) return EXIT_NO;
      if (json) printJson(declared, io);
      else
        io.stdout(
          `declared at ${declared.at}: at the next start each ledger goes on with root ${declared.sequence}, which says so. Watchers have to accept it.\n`,
        );
      return EXIT_OK;
    } catch (error) {
      return tellWhy(error, io);
    }
  },
};

function questionOf(ends: readonly { readonly orgId: string; readonly sequence: number }[]): string {
  const named = ends.slice(0, MOST_NAMED).map(({ orgId, sequence }) => `${orgId}: root ${sequence}`);
  const list = named.length === 0 ? 'no ledger has a root' : `${named.join(', ')}${ends.length > named.length ? ', …' : ''}`;
  return terminalText(
    `The last roots in this folder: ${list}. What was signed behind them is cut, for everybody to see. Was this folder put back from a backup?`,
  );
}

/** @throws what is no Error */
function tellWhy(error: unknown, io: CliIo): number {
  if (!(error instanceof Error) || error instanceof UsageError) throw error;
  const inUse = error instanceof StoreError && error.code === 'in_use';
  const why = inUse ? 'a control plane runs on this data folder; stop it first' : terminalOutput(error.message);
  io.stderr(`gw control-plane restored: ${why}\n`);
  return EXIT_NO;
}
