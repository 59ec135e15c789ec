import { systemClock } from '../../base/lib/clock.ts';
import { messageOf } from '../../base/lib/gateway-error.ts';
import { paintFor } from '../../policy-tools/render-problem.ts';
import { parseOptions } from '../checked-arguments.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK, Unusable } from '../command.ts';
import { untilStopped } from '../demo/until-stopped.ts';
import { isShown } from '../standard-output.ts';
import { JSON_OPTION, printJson, terminalLines } from '../terminal-text.ts';
import type { FleetPlace } from './fleet-place.ts';
import type { FleetStep } from './fleet-steps.ts';

const OPTIONS = { check: { type: 'boolean' }, ...JSON_OPTION } as const;

/** Shows on this machine alone what a control plane and its gateways do. */
export const controlPlaneDemo: Command = {
  name: 'control-plane demo',
  usage: '[--check] [--json]',
  summary: 'Shows it on this machine: a control plane, two gateways that enrol with it, a stand-in for providers. No key, no cost.',
  help: `
  --check  goes through what there is to try by itself, and ends
  --json   how everything is found, or with --check what was seen, as one object and without the rest

Everything is in a temporary folder, which is removed at the end. Without --check it runs until Ctrl-C.
Exit code: 0 when all went as it says, 1 when something did not.
`,
  async run(args, io) {
    const { check = false, json = false } = parseOptions(args, OPTIONS);
    const stopped = check ? undefined : untilStopped();
    const quiet = json ? { ...io, stdout: () => undefined } : io;
    // Loaded here, so that the small commands do not wait for it.
    const [{ openFleet }, { FLEET_STEPS }] = await Promise.all([import('./fleet-place.ts'), import('./fleet-steps.ts')]);
    let place: FleetPlace;
    try {
      place = await openFleet(systemClock);
    } catch (error) {
      throw new Unusable(messageOf(error), { cause: error });
    }
    try {
      const seen = await go(place, check ? FLEET_STEPS : FLEET_STEPS.slice(0, 1), quiet);
      if (seen === undefined) return EXIT_NO;
      if (json) printJson(check ? { steps: seen } : foundBy(place), io);
      else if (!check) io.stdout((await import('./fleet-text.ts')).fleetText(place, io.program ?? 'gw'));
      await isShown(io);
      await stopped;
      return EXIT_OK;
    } finally {
      await place.close();
    }
  },
};

interface Seen {
  readonly step: string;
  readonly gateway: string;
  readonly seen: string;
}

/** @returns undefined when something did not go as it should, which is said then */
async function go(place: FleetPlace, steps: readonly FleetStep[], io: CliIo): Promise<readonly Seen[] | undefined> {
  const { takeStep } = await import('./fleet-steps.ts');
  const paint = paintFor(io.colours);
  io.stdout(`A control plane at ${paint.bold(place.url)}, for gateways at ${place.address}, and two that have enrolled with it.\n\n`);
  const all: Seen[] = [];
  const records = new Map<string, string>();
  for (const step of steps) {
    io.stdout(`${step.title}\n`);
    try {
      await takeStep(step, {
        place,
        clock: systemClock,
        records,
        seen: (gateway, seen) => {
          all.push({ step: step.title, gateway: gateway.name, seen });
          io.stdout(`  ${gateway.name.padEnd(22)} ${paint.dim(seen)}\n`);
        },
      });
    } catch (error) {
      io.stderr(`gw control-plane demo: ${terminalLines(messageOf(error))}\n`);
      return undefined;
    }
  }
  return all;
}

function foundBy({ folder, url, address, adminToken, gateways }: FleetPlace): object {
  return {
    control_plane: { url, address, admin_token: adminToken, folder },
    gateways: gateways.map(({ name, mode, url: at, adminToken: token, headers }) => ({ name, mode, url: at, admin_token: token, headers })),
  };
}
