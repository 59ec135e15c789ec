import type { ControlPlaneSettings } from '../../base/config/control-plane-settings.ts';
import { loadControlPlaneSettings } from '../../base/config/load-control-plane-settings.ts';
import { originOf, reachableHost } from '../../base/config/own-origin.ts';
import { ConfigError } from '../../base/config/settings-reader.ts';
import { systemClock } from '../../base/lib/clock.ts';
import { messageOf } from '../../base/lib/gateway-error.ts';
import { watchHeapGrowth } from '../../base/lib/heap-growth.ts';
import { bracketHost } from '../../base/lib/host.ts';
import { createLogger } from '../../base/lib/log.ts';
import { terminalOutput } from '../../base/lib/shown-text.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK, UsageError } from '../command.ts';
import { untilStopped } from '../demo/until-stopped.ts';

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

/** A control plane that runs, as far as a person needs to find it. */
interface Running {
  readonly grpcPort: number;
  readonly httpPort: number;
  readonly adminToken: { readonly file: string | undefined };
}

/**
 * What a person needs to see after the start: where everything is, and the first thing to do. Never a secret.
 * @param gw how this program is called
 */
function controlPlaneAnnouncement({ grpcPort, httpPort, adminToken }: Running, settings: ControlPlaneSettings, gw: string): string {
  const host = reachableHost(settings.host);
  const http = originOf('http', host, httpPort);
  const lines = [
    'The control plane is running.',
    '',
    `  gateways     ${bracketHost(host)}:${grpcPort}`,
    `  names        ${settings.names.join(', ')}`,
    `  admin API    ${http}/v1`,
    `  admin token  ${adminToken.file ?? 'as configured'}`,
    `  ca           ${http}/v1/ca.crt`,
    `  health       ${http}/healthz`,
    `  data         ${settings.dataDir}`,
    '  docs         docs/guides/control-plane.md',
    '',
    'Try it:',
    `  ${gw} control-plane org put acme`,
    `  ${gw} control-plane token create acme`,
    '',
  ];
  return `${lines.join('\n')}\n`;
}
