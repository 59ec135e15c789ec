import { ConfigError, wholeEnvironment } from '../../base/config/settings-reader.ts';
import { messageOf } from '../../base/lib/gateway-error.ts';
import { badValue, parseOptions } from '../checked-arguments.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK } from '../command.ts';
import { folded } from '../folded-text.ts';
import { ownAddress, parseGatewayUrl } from '../gateway-address.ts';
import { URL_OPTION } from '../gateway-client.ts';
import { foundConfig } from '../gateways/find-gateway.ts';
import { asTyped } from '../program-name.ts';
import type { GatewaySettings } from '../settings-of.ts';
import { printJson, terminalText } from '../terminal-text.ts';
import { askHealth } from './ask-health.ts';
import type { DoctorCheck, Finding, FindingLevel, Patient } from './finding.ts';
import { GATEWAY_CHECKS } from './gateway-checks.ts';
import { MACHINE_CHECKS } from './machine-checks.ts';
import { RUNTIMES } from './runtimes.ts';

/** Everything that is looked at, in this order. */
export const CHECKS: readonly DoctorCheck[] = [...GATEWAY_CHECKS, ...MACHINE_CHECKS];

const NAMES = RUNTIMES.map(({ id }) => id);
const OPTIONS = { for: { type: 'string' }, online: { type: 'boolean' }, json: { type: 'boolean' }, ...URL_OPTION } as const;
const MARKS: Readonly<Record<FindingLevel, string>> = { ok: 'ok', skipped: '-', warning: 'warning', wrong: 'WRONG' };

/** Finds and names what keeps programs of this shell from the gateway. */
export const doctor: Command = {
  name: 'doctor',
  usage: `[--for ${NAMES.join('|')}] [--online] [--json] [--url http://HOST:PORT]`,
  summary:
    'Finds what is wrong with a gateway, this shell and its runtimes, and says what to do; exit code 0 all well, 1 something is wrong.',
  help: `  --for RUNTIME   tries these (several with commas), whatever the shell says; without it: node, python, curl, git
  --online        also asks the parent proxy (GW_UPSTREAM_PROXY) or the DNS
  --json          a list of findings: id, level (ok, skipped, warning, wrong), found, remedy
`,
  async run(args, io) {
    const { for: wanted, online = false, json = false, url } = parseOptions(args, OPTIONS);
    const runtimes = wanted === undefined ? [] : wanted.split(',');
    const unknown = runtimes.find((one) => !NAMES.includes(one));
    if (unknown !== undefined) throw badValue('--for', NAMES.join(', '), unknown);
    const patient = await examine(url, runtimes, online, io);
    const findings: Finding[] = [];
    for (const { look } of CHECKS) findings.push(...(await look(patient)).map((finding) => typable(finding, io.program)));
    if (json) printJson(findings, io);
    else print(findings, io);
    return findings.some(({ level }) => level === 'wrong') ? EXIT_NO : EXIT_OK;
  },
};

/** What it says to type can be typed here. */
function typable(finding: Finding, program: string | undefined): Finding {
  const { found, remedy } = finding;
  return { ...finding, found: asTyped(found, program), ...(remedy === undefined ? {} : { remedy: asTyped(remedy, program) }) };
}

async function examine(given: string | undefined, runtimes: readonly string[], online: boolean, io: CliIo): Promise<Patient> {
  const { config, warnings, mistakes: found } = settingsIn(io, given);
  const mistakes = [...found];
  const url = given === undefined ? placeOf(config, mistakes, io) : parseGatewayUrl(given, config ?? { tlsCertFile: undefined }, io);
  return {
    io,
    env: wholeEnvironment(io.env),
    config,
    mistakes,
    warnings,
    url,
    elsewhere:
      url !== undefined && config?.found === undefined && !['127.0.0.1', '[::1]', 'localhost', config?.host].includes(url.hostname),
    health: await askHealth(url),
    runtimes,
    online,
  };
}

type Settings = Pick<Patient, 'mistakes'> & { readonly config: GatewaySettings | undefined; readonly warnings: readonly string[] };

function settingsIn(io: CliIo, url: string | undefined): Settings {
  try {
    const { config, warnings, found } = foundConfig(io.env, { url });
    return { config: { ...config, found }, warnings, mistakes: [] };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { config: undefined, warnings: error.warnings, mistakes: error.problems.map(({ message }) => message) };
  }
}

/** Undefined also where its certificate cannot be read, which the settings' check tells. */
function placeOf(config: Patient['config'], mistakes: string[], io: CliIo): Patient['url'] {
  if (config === undefined || config.port === 0) return undefined;
  try {
    return ownAddress(config, io.env);
  } catch (error) {
    mistakes.push(messageOf(error));
    return undefined;
  }
}

/** On a terminal folded beside its column; elsewhere one line, for programs that search it. */
function besideColumn(column: string, text: string, { columns }: CliIo): string {
  const shown = terminalText(text);
  if (columns === undefined) return `${column}${shown}\n`;
  const [first = '', ...words] = shown.split(' ');
  return `${folded([column + first, ...words], columns, ' '.repeat(column.length))}\n`;
}

function print(findings: readonly Finding[], io: CliIo): void {
  for (const { id, level, found, remedy } of findings) {
    io.stdout(besideColumn(`${MARKS[level].padEnd(8)} ${id.padEnd(15)} `, found, io));
    if (remedy !== undefined) io.stdout(besideColumn(`${' '.repeat(25)}-> `, remedy, io));
  }
  const wrongs = findings.filter(({ level }) => level === 'wrong').length;
  const warnings = findings.filter(({ level }) => level === 'warning').length;
  const said = wrongs === 1 ? 'One thing is wrong' : `${wrongs === 0 ? 'Nothing is' : `${wrongs} things are`} wrong`;
  io.stdout(`\n${said}${warnings === 0 ? '' : ` (${warnings} warning${warnings === 1 ? '' : 's'})`}.\n`);
}
