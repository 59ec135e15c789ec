/* Stopping calls at a running gateway, at once and whatever policy says, and letting them go on. */
import { systemClock } from '../../base/lib/clock.ts';
import { STOP_MEMBERS, type Stop, type StopScope, stopScopeText } from '../../base/model/stop.ts';
import { parseOptions, parseWithWords } from '../checked-arguments.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK, UsageError } from '../command.ts';
import { URL_OPTION } from '../gateway-client.ts';
import { JSON_OPTION, printJson, printJsonDocument, terminalText } from '../terminal-text.ts';
import { openStops, type StopsAccess } from './stops-access.ts';

const WORD = 'stop';
const SCOPE_USAGE = '--all | [--org ID] [--workload ID] [--provider NAME] [--model NAME]';
const ASKING = '[--json] [--url http://HOST:PORT] [--key mgk_…]';
const SCOPE_OPTIONS = {
  all: { type: 'boolean' },
  org: { type: 'string' },
  workload: { type: 'string' },
  provider: { type: 'string' },
  model: { type: 'string' },
} as const;
const ASKING_OPTIONS = { key: { type: 'string' }, ...JSON_OPTION, ...URL_OPTION } as const;
const SCOPE_RULE = 'name which calls: --all, or one or more of --org, --workload, --provider and --model';
/** Who types the name alone may mean the process. */
const PROCESS_HINT = 'The gateway itself is ended with Ctrl-C, or by what runs it (systemctl stop, docker stop)';

type GivenScope = StopScope & { readonly all?: boolean };

/** Refuses calls, and ends those that are under way. */
export const stopCalls: Command = {
  name: 'stop',
  usage: `${SCOPE_USAGE} --reason TEXT [--until TIME] [--yes] ${ASKING}`,
  summary: 'Stops calls of a running gateway: refuses them from now on, and ends those under way within a second, at all nodes.',
  help: `
  --all        all calls; with a management key, all of its org
  --provider   calls that go to this provider, tunnels to its hosts too
  --model      calls of this model, however its name is spelt, and those that hide which model they take
  --reason     callers are shown it
  --until      when it ends by itself, such as 2h or 2030-01-01T00:00:00Z; left out, it stands until gw resume
  --yes        does not ask for the word "${WORD}" to be typed

  Of several, calls are stopped that have all of them. The gateway process goes on: it is ended with Ctrl-C, or by what runs it.
`,
  async run(args, io) {
    const values = parseOptions(args, {
      ...SCOPE_OPTIONS,
      ...ASKING_OPTIONS,
      reason: { type: 'string' },
      until: { type: 'string' },
      yes: { type: 'boolean' },
    });
    const { reason, until, yes = false, json = false } = values;
    const scope = scopeOf(values, `. ${PROCESS_HINT}`);
    if (reason === undefined) throw new UsageError('--reason is missing: callers are shown it');
    const end = until === undefined ? undefined : (await import('../management/option-values.ts')).requireTimeToCome('--until', until);
    const stops = await openStops(values, io);
    if (!yes && !(await isMeant(scope, io))) return EXIT_NO;
    const stop = await stops.make({ scope, reason, ...(end === undefined ? {} : { until: end }), confirm: WORD });
    if (json) printJson(stop, io);
    else io.stdout(`Stopped: ${textOf(stop)}.\nThey go on with: gw resume ${terminalText(stop.stop_id)}\n`);
    return EXIT_OK;
  },
};

/** Ends stops. */
export const resumeCalls: Command = {
  name: 'resume',
  usage: `ID | ${SCOPE_USAGE} ${ASKING}`,
  summary: 'Ends a stop of a running gateway, by its id (gw stops), or all stops of exactly one scope: its calls go on.',
  async run(args, io) {
    const { values, words } = parseWithWords(args, { ...SCOPE_OPTIONS, ...ASKING_OPTIONS }, 1);
    const [typed] = words;
    if (typed !== undefined && isScoped(values)) throw new UsageError('it takes the ID of a stop or a scope, not both');
    const scope = typed === undefined ? scopeOf(values, ', or give the ID of a stop (gw stops)') : undefined;
    const stops = await openStops(values, io);
    const ended = await stops.end(scope === undefined ? { stop_id: await wholeStopId(stops, typed ?? '', io) } : { scope });
    if (values.json === true) printJsonDocument(ended, io);
    else io.stdout(ended.map((stop) => `Ended: ${textOf(stop)}.\n`).join(''));
    return EXIT_OK;
  },
};

/** Shows the stops that stand. */
export const listStops: Command = {
  name: 'stops list',
  usage: `[--org ID] ${ASKING}`,
  summary: 'Lists the stops that stand at a running gateway, the newest first.',
  usual: true,
  async run(args, io) {
    const { org, json = false, ...asked } = parseOptions(args, { org: { type: 'string' }, ...ASKING_OPTIONS });
    const stops = await (await openStops(asked, io)).list(org);
    if (json) {
      printJsonDocument(stops, io);
      return EXIT_OK;
    }
    const [{ listText }, { LISTS }] = await Promise.all([
      import('../management/answer-text.ts'),
      import('../management/command-tables.ts'),
    ]);
    io.stdout(listText(stops, { things: 'stops', ...LISTS['mgmt.stops.list'], view: { width: io.columns, now: systemClock.now() } }));
    return EXIT_OK;
  },
};

function isScoped(given: GivenScope): boolean {
  return given.all === true || STOP_MEMBERS.some((name) => given[name] !== undefined);
}

/** @param hint what may have been meant where no calls are named @throws UsageError */
function scopeOf(given: GivenScope, hint: string): StopScope {
  const named = STOP_MEMBERS.filter((name) => given[name] !== undefined);
  if (given.all === true && named.length > 0) throw new UsageError(`--all names all calls: leave out --${named.join(' and --')}`);
  if (!isScoped(given)) throw new UsageError(`${SCOPE_RULE}${hint}`);
  return Object.fromEntries(named.map((name) => [name, given[name]]));
}

function textOf({ scope, reason, until }: Stop): string {
  return `${terminalText(stopScopeText(scope))} (${terminalText(reason)})${until === undefined ? '' : ` until ${terminalText(until)}`}`;
}

/** Whether the word was typed that says so. */
async function isMeant(scope: StopScope, io: CliIo): Promise<boolean> {
  if (io.columns === undefined || io.stdinLines === undefined) {
    io.stderr('Nothing was stopped: here --yes says that it is meant.\n');
    return false;
  }
  io.stderr(`This refuses ${terminalText(stopScopeText(scope))}, and ends what is under way. Type "${WORD}" to do it: `);
  for await (const line of io.stdinLines()) {
    if (line.trim() === WORD) return true;
    break;
  }
  io.stderr('Nothing was stopped.\n');
  return false;
}

/** What a person has shortened. @throws Unusable where several are meant */
async function wholeStopId(stops: StopsAccess, typed: string, io: CliIo): Promise<string> {
  const [{ wholeIdAmong }, { LISTS }] = await Promise.all([
    import('../management/short-ids.ts'),
    import('../management/command-tables.ts'),
  ]);
  return wholeIdAmong(await stops.list(undefined), LISTS['mgmt.stops.list']?.columns ?? [], typed, io);
}
