import { timestamp } from '../../base/lib/clock.ts';
import { type Command, EXIT_OK } from '../command.ts';
import { parseOptions } from '../parse-options.ts';
import { JSON_OPTION, printJson } from '../print-json.ts';
import { onDataFolder } from './data-command.ts';

/** Lets a gateway that doubts the clock believe it. */
export const confirmClock: Command = {
  name: 'journal confirm-clock',
  usage: '[--json]',
  summary:
    'Tells the gateway of GW_DATA_DIR, running or not, that the clock is right after it was off for long: then old records are removed again.',
  run(args, io) {
    const { json = false } = parseOptions(args, JSON_OPTION);
    return onDataFolder('journal confirm-clock', io, async (dataDir) => {
      const { confirm } = await import('../../app/journal.ts');
      const now = await confirm(dataDir);
      if (json) printJson({ confirmed_at: timestamp(now) }, io);
      else io.stdout(`The clock says ${timestamp(now)}, and that is right. The gateway takes it within a minute, or at its next start.\n`);
      return EXIT_OK;
    });
  },
};
