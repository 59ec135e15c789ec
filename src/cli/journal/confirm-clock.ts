import { timestamp } from '../../base/lib/clock.ts';
import { type Command, EXIT_OK, UsageError } from '../command.ts';
import { onDataFolder } from './data-command.ts';

/** Lets a gateway that doubts the clock believe it. */
export const confirmClock: Command = {
  name: 'journal confirm-clock',
  usage: '',
  summary:
    'Tells the gateway of GW_DATA_DIR, running or not, that the clock is right after it was off for long: then old records are removed again.',
  run(args, io) {
    if (args.length > 0) throw new UsageError('it takes no arguments: GW_DATA_DIR names the folder');
    return onDataFolder('journal confirm-clock', io, async (dataDir) => {
      const { confirm } = await import('../../app/journal.ts');
      const now = await confirm(dataDir);
      io.stdout(`The clock says ${timestamp(now)}, and that is right. The gateway takes it within a minute, or at its next start.\n`);
      return EXIT_OK;
    });
  },
};
