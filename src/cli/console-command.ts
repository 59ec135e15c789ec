import { spawn } from 'node:child_process';
import { type Environment, shellVariable, wholeEnvironment } from '../base/config/settings-reader.ts';
import { isJsonObject } from '../base/json/json-object.ts';
import { parseSafeJsonText } from '../base/json/safe-json.ts';
import { parseOptions } from './checked-arguments.ts';
import { type CliIo, type Command, EXIT_OK, GatewayRefusal, Unusable } from './command.ts';
import type { GatewayAddress } from './gateway-address.ts';
import { errorOf, GatewayClient, sendToGateway, URL_OPTION } from './gateway-client.ts';
import { givenKey } from './management/given-key.ts';
import { JSON_OPTION, printJsonDocument, terminalText } from './terminal-text.ts';
import { findProgram } from './trust/run-program.ts';

const PATH = '/v1/console/links';
const OPTIONS = { print: { type: 'boolean' }, key: { type: 'string' }, ...JSON_OPTION, ...URL_OPTION } as const;

/** Programs that show an address in the browser of whoever sits there, by system, the usual one first. */
const OPENERS: Readonly<Record<string, readonly (readonly [program: string, ...args: string[]])[]>> = {
  darwin: [['open']],
  win32: [['rundll32', 'url.dll,FileProtocolHandler']],
  linux: [['xdg-open'], ['gio', 'open'], ['wslview']],
};

/** Of which one is set where somebody sits at a screen. */
const SCREENS = ['DISPLAY', 'WAYLAND_DISPLAY', 'WSL_DISTRO_NAME'];
const PATIENCE_MS = 3_000;

/** Opens the web console, signed in. */
export const consoleCommand: Command = {
  name: 'console',
  usage: '[--print] [--json] [--key mgk_…] [--url http://HOST:PORT]',
  summary: 'Opens the web console in the browser, signed in by a link that works once.',
  help: `
  --print   prints the link, and opens nothing
  --json    prints it with when it ends, and opens nothing
  --key     signs in with this management key (GW_MGMT_KEY), and sees its org alone; left out, with the admin token

  The link lets in whoever has it, once, within two minutes. Where no browser can be opened it is printed. While a browser is opened, others
  who use the same machine can see the link in its list of processes: use --print there.
`,
  async run(args, io) {
    const { print = false, json = false, key, url } = parseOptions(args, OPTIONS);
    const made = await askForLink(givenKey(key, io), url, io);
    const link = linkIn(made);
    if (json) {
      printJsonDocument(made, io);
      return EXIT_OK;
    }
    if (print || !(await isOpened(link, io))) {
      io.stdout(`${terminalText(link)}\n`);
      return EXIT_OK;
    }
    const { origin, pathname } = new URL(link);
    io.stdout(`The console is open in the browser: ${terminalText(`${origin}${pathname}`)}\n`);
    return EXIT_OK;
  },
};

async function askForLink(key: string | undefined, url: string | undefined, io: CliIo): Promise<unknown> {
  if (key === undefined) return (await GatewayClient.openManagement(url, io)).json('POST', PATH);
  const gateway: GatewayAddress = GatewayClient.keyPlace(io, url);
  const { status, text } = await sendToGateway(gateway, PATH, { method: 'POST', headers: { Authorization: `Bearer ${key}` } });
  if (status === 201) return parseSafeJsonText(text, { malformed: 'invalid_request' }).value;
  if (status === 401) throw new Unusable(`${gateway.origin} does not accept the management key`);
  const { code, message } = errorOf(text);
  throw new GatewayRefusal(status, code, message || `${gateway.origin} answered ${status}`);
}

/** Nothing but an address of the web is handed to what opens it. */
function linkIn(answer: unknown): string {
  const link = isJsonObject(answer) ? answer['url'] : undefined;
  if (typeof link === 'string' && /^https?:\/\/[\x21-\x7e]+$/.test(link) && URL.canParse(link)) return link;
  throw new Unusable('what the gateway answers has no link: is it a gateway of this version?');
}

/** Whether a program has taken it. Where nobody sits at a screen none is asked. */
async function isOpened(link: string, { env }: CliIo): Promise<boolean> {
  const isSeen = process.platform !== 'linux' || SCREENS.some((name) => shellVariable(name, env) !== undefined);
  if (!isSeen) return false;
  for (const [program, ...args] of OPENERS[process.platform] ?? []) {
    const path = findProgram(program, env);
    if (path !== undefined && (await isTaken(path, [...args, link], wholeEnvironment(env)))) return true;
  }
  return false;
}

/** One that neither ends nor fails soon is the browser itself, which goes on without us. */
function isTaken(path: string, args: readonly string[], env: Environment): Promise<boolean> {
  return new Promise((resolve) => {
    const child = spawn(path, args, { env, stdio: 'ignore', detached: true });
    const ends = (taken: boolean): void => {
      clearTimeout(patience);
      child.unref();
      resolve(taken);
    };
    const patience = setTimeout(() => ends(true), PATIENCE_MS);
    child.once('error', () => ends(false));
    child.once('exit', (code) => ends(code === 0));
  });
}
