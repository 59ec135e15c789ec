import type { ControlPlaneSettings } from '../../base/config/control-plane-settings.ts';
import { loadControlPlaneSettings } from '../../base/config/load-control-plane-settings.ts';
import { ConfigError } from '../../base/config/settings-reader.ts';
import { systemClock } from '../../base/lib/clock.ts';
import { watchHeapGrowth } from '../../base/lib/heap-growth.ts';
import { createLogger } from '../../base/lib/log.ts';
import { terminalOutput } from '../../base/lib/shown-text.ts';
import { messageOf } from '../../base/lib/thrown.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK, UsageError } from '../command.ts';
import { untilStopped } from '../demo/until-stopped.ts';
import { controlPlaneAnnouncement } from './control-plane-announcement.ts';

/** Runs a control plane until it is told to stop. */
export const startControlPlaneCommand: Command = {
  name: 'control-plane start',
  usage: '',
  summary: 'Starts a control plane for gateways of many orgs; its settings are CP_* variables. SIGTERM lets running calls finish.',
  async run(args, io) {
    if (args.length > 0) throw new UsageError('it takes no arguments: its settings are CP_* variables');
    const stopped = untilStopped();
    const settings = settingsWithWarnings(io);
    // Loaded here, so that the small commands do not wait for it.
    const { startControlPlane } = await import('../../control-plane/app/control-plane.ts');
    try {
      const log = createLogger({ level: settings.logLevel, format: settings.logFormat });
      const controlPlane = await startControlPlane(settings, { log });
      io.stdout(controlPlaneAnnouncement(controlPlane, settings, io.program ?? 'gw'));
      const endGrowth = watchHeapGrowth({ clock: systemClock });
      await stopped;
      endGrowth();
      await controlPlane.stop();
      return EXIT_OK;
    } catch (error) {
      io.stderr(`${terminalOutput(messageOf(error))}\n`);
      return EXIT_NO;
    }
  },
};

/** @throws UsageError with every mistake */
function settingsWithWarnings(io: CliIo): ControlPlaneSettings {
  try {
    const { config, warnings } = loadControlPlaneSettings(io.env);
    for (const warning of warnings) io.stderr(`warning: ${warning}\n`);
    return config;
  } catch (error) {
    if (error instanceof ConfigError) throw new UsageError(error.message, { cause: error });
    throw error;
  }
}
