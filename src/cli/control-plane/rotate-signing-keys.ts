import type { KeyRotation } from '../../control-plane/state/control-plane-state.ts';
import { parseWithOne } from '../checked-arguments.ts';
import { type CliIo, type Command, EXIT_OK, Unusable, UsageError } from '../command.ts';
import { SWITCH_OPTIONS, switchAsked } from '../switch-time.ts';
import { JSON_OPTION, printJson, terminalText } from '../terminal-text.ts';
import { adminOperationOf, ControlPlaneClient } from './control-plane-client.ts';

/** Time enough for every gateway to have heard of the next key. */
const USUAL_WAIT = '7d';

const OPTIONS = {
  ...SWITCH_OPTIONS,
  yes: { type: 'boolean' },
  url: { type: 'string' },
  token: { type: 'string' },
  ...JSON_OPTION,
} as const;

/** Replaces a signing key of a running control plane, without a time at which anybody does not know it. */
export const rotateSigningKeys: Command = {
  name: 'control-plane keys rotate',
  usage:
    'ledger|bundle|ca [--in DURATION | --switch-at TIME | --cancel | --finish [--yes]] [--json] [--url http://HOST:PORT] [--token TOKEN]',
  summary: `Makes the next key of roots or of bundles, or the next CA, which is listed at once and signs from a date on (default: in ${USUAL_WAIT}).`,
  help: `
  --in DURATION      when it signs, from now: 12h, 7d; 0 at once, for a key that has leaked
  --switch-at TIME   the same as a time, such as 2027-01-31T03:00:00Z
  --cancel           gives the next key up, as long as it does not sign
  --finish           lists former keys of bundles, or trusts the former CA, no longer; keys of the ledger stay
  --yes              with --finish: also while gateways still need a former key
`,
  async run(args, io) {
    const { values, one: use } = parseWithOne(args, OPTIONS, 'it takes ledger, bundle or ca');
    if (use !== 'ledger' && use !== 'bundle' && use !== 'ca') throw new UsageError('it takes ledger, bundle or ca');
    const { yes, finish } = values;
    const { what, ...body } = switchAsked(values, USUAL_WAIT);
    if (yes !== undefined && finish === undefined) throw new UsageError('--yes belongs to --finish');
    const client = await ControlPlaneClient.open(values, io);
    const asked = { use, ...body, ...(what === 'finish' ? { confirm: yes === true } : {}) };
    const answer = rotationIn(await client.json(adminOperationOf(`keys.${what}`), asked));
    if (values.json === true) printJson(answer, io);
    else show(answer, io);
    return EXIT_OK;
  },
};

/** @throws Unusable for what no control plane answers */
function rotationIn(answer: unknown): KeyRotation {
  const rotation = answer as KeyRotation | null;
  if (typeof rotation !== 'object' || rotation === null || !Array.isArray(rotation.keys))
    throw new Unusable('what was answered is no rotation of keys: is it a control plane of this version?');
  return rotation;
}

function show({ use, keys, unaware_nodes: unaware, nodes_on_former: behind, nodes, switch_at: at }: KeyRotation, io: CliIo): void {
  const lines = keys.map(({ kid, state, not_before: from, ...key }) => {
    const until = 'not_after' in key ? key.not_after : undefined;
    const since = from === undefined ? '' : `  from ${from}`;
    return `${state.padEnd(8)} ${kid}${since}${until === undefined ? '' : `  to ${until}`}`;
  });
  const some = nodes.slice(0, 5).map(({ org_id: org, node_id: node }) => `${node} of ${org}`);
  const which = `${some.join(', ')}${nodes.length > some.length ? ', …' : ''}`;
  if (unaware > 0 && at !== null)
    lines.push(`${unaware} gateways have not heard of the next key yet: ${which}. Each does with its next contact.`);
  if (behind > 0) lines.push(`${behind} gateways still need the former key: ${which}.`);
  if (use === 'ledger' && at !== null)
    lines.push(
      'Give the new list of keys (gw control-plane public-key list --json) to those who keep one; a watcher takes it over by itself.',
    );
  io.stdout(`${lines.map(terminalText).join('\n')}\n`);
}
