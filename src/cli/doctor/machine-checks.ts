import { lookup } from 'node:dns/promises';
import { existsSync, readFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { shellVariable } from '../../base/config/settings-reader.ts';
import { messageOf } from '../../base/lib/gateway-error.ts';
import { bracketHost } from '../../base/lib/host.ts';
import { entriesOf, entryPastGateway } from '../clients/no-proxy.ts';
import { sendToGateway } from '../gateway-client.ts';
import { findProgram, runProgram } from '../trust/run-program.ts';
import { speaks } from './ask-health.ts';
import { type DoctorCheck, type Finding, ok, type Patient, skipped, warning, wrong } from './finding.ts';
import { proxyOf, tryRuntimes } from './runtimes.ts';

const MIB = 1_048_576;
const LITTLE = 1_024 * MIB;
const NOTHING = 100 * MIB;
/** Each tunnel takes two. */
const FEW_FILES = 4_096;
/** Signatures and files share these threads. */
const FEW_THREADS = 4;
const UNIT = 'ai-request-gateway.service';
/** One that every shell with a gateway is about. */
const AI_HOST = 'api.openai.com';
const CONNECT_MS = 5_000;

/** What concerns this machine and this shell. */
export const MACHINE_CHECKS: readonly DoctorCheck[] = [
  { id: 'proxy-variable', looksAt: 'HTTPS_PROXY: set, and leading to the gateway; NO_PROXY: no AI host in it', look: proxyVariable },
  {
    id: 'runtimes',
    looksAt: 'each of node, python, curl, git (java, go, chromium with --for): whether it uses the proxy and trusts the root',
    look: tryRuntimes,
  },
  { id: 'disk', looksAt: 'room on the disk of the data folder', look: disk },
  { id: 'files', looksAt: 'how many files a process of this shell may open', look: files },
  { id: 'threads', looksAt: 'UV_THREADPOOL_SIZE', look: threads },
  { id: 'unit', looksAt: `the state of ${UNIT}, where systemd has it`, look: unit },
  { id: 'online', looksAt: 'with --online: the parent proxy, or without one the DNS', look: online },
];

function proxyVariable({ env, url }: Patient): readonly Finding[] {
  const id = 'proxy-variable';
  const given = proxyOf(env);
  // Programs differ in which of the two they read.
  const noProxy = ['no_proxy', 'NO_PROXY'].flatMap((name) => entriesOf(shellVariable(name, env) ?? ''));
  const then = 'eval "$(gw env)"';
  if (given === undefined) return [warning(id, 'HTTPS_PROXY is not set: programs of this shell do not use the gateway', then)];
  if (!URL.canParse(given)) return [wrong(id, 'HTTPS_PROXY is no address', then)];
  const findings: Finding[] = [];
  const place = new URL(given);
  if (url !== undefined && place.port !== url.port)
    findings.push(warning(id, `HTTPS_PROXY leads to ${place.host}, and the gateway is at ${url.host}`, then));
  const past = entryPastGateway(noProxy);
  // `gw env` takes nothing but * away.
  if (past !== undefined) findings.push(wrong(id, past, noProxy.includes('*') ? `take it out, or ${then}` : 'take it out'));
  return findings.length > 0 ? findings : [ok(id, `HTTPS_PROXY leads to ${place.host}`)];
}

async function disk({ config, elsewhere }: Patient): Promise<readonly Finding[]> {
  if (config === undefined || elsewhere) return [skipped('disk', 'the folder is another machine’s, or the settings are not valid')];
  let folder = resolve(config.dataDir);
  while (!existsSync(folder)) folder = dirname(folder);
  const { bavail, bsize } = await statfs(folder);
  return [diskFinding(bavail * bsize, folder)];
}

/** @param free bytes that are left to this user */
export function diskFinding(free: number, folder: string): Finding {
  const text = `${Math.floor(free / MIB)} MiB are free on the disk of ${folder}`;
  const then = 'make room, or shorten GW_RECORD_RETENTION: what cannot be recorded is refused';
  if (free < NOTHING) return wrong('disk', text, then);
  return free < LITTLE ? warning('disk', text, then) : ok('disk', text);
}

function files(): readonly Finding[] {
  const limits = existsSync('/proc/self/limits') ? readFileSync('/proc/self/limits', 'utf8') : '';
  const most = /^Max open files +(\d+|unlimited)/m.exec(limits)?.[1];
  if (most === undefined) return [skipped('files', 'this system does not tell')];
  const text = `${most} files may be open at once`;
  if (most === 'unlimited' || Number(most) >= FEW_FILES) return [ok('files', text)];
  return [warning('files', `${text}, and each tunnel takes two`, 'ulimit -n 65536 before the start, or LimitNOFILE= in the unit')];
}

function threads({ env }: Patient): readonly Finding[] {
  const given = shellVariable('UV_THREADPOOL_SIZE', env);
  if (given === undefined || Number(given) >= FEW_THREADS)
    return [ok('threads', given === undefined ? 'UV_THREADPOOL_SIZE is left to the start' : `UV_THREADPOOL_SIZE is ${given}`)];
  return [
    warning('threads', `UV_THREADPOOL_SIZE is ${given}: signatures and the journal wait for each other`, 'unset it: the start chooses'),
  ];
}

async function unit({ env }: Patient): Promise<readonly Finding[]> {
  const systemctl = findProgram('systemctl', env);
  if (systemctl === undefined) return [skipped('unit', 'there is no systemd here')];
  const { code, stdout } = await runProgram(systemctl, ['show', UNIT, '-p', 'LoadState,ActiveState,SubState,Result'], { env });
  const state: Readonly<Record<string, string | undefined>> = Object.fromEntries(
    stdout.split('\n').map((line): [string, string] => [line.split('=')[0] ?? '', line.split('=')[1] ?? '']),
  );
  if (code !== 0 || state['LoadState'] !== 'loaded') return [skipped('unit', `systemd has no ${UNIT}`)];
  const text = `${UNIT} is ${state['ActiveState']} (${state['SubState']}, ${state['Result']})`;
  if (state['ActiveState'] === 'failed') return [wrong('unit', text, `journalctl -u ${UNIT} -n 50 says why`)];
  return [state['ActiveState'] === 'active' ? ok('unit', text) : warning('unit', text, `systemctl enable --now ${UNIT}`)];
}

async function online({ online: asked, config }: Patient): Promise<readonly Finding[]> {
  if (!asked) return [skipped('online', 'not asked for (--online)')];
  const parent = config?.upstreamProxy;
  try {
    if (parent === undefined) {
      await lookup(AI_HOST);
      return [ok('online', `the DNS knows ${AI_HOST}`)];
    }
    await reach(parent.host, parent.port);
    return [ok('online', `the parent proxy ${parent.host}:${parent.port} takes connections`)];
  } catch (error) {
    if (parent === undefined)
      return [
        wrong(
          'online',
          `the DNS does not know ${AI_HOST}: ${messageOf(error)}`,
          'where a parent proxy resolves names, set GW_UPSTREAM_PROXY',
        ),
      ];
    return [wrong('online', `the parent proxy cannot be reached: ${messageOf(error)}`, 'correct GW_UPSTREAM_PROXY, or start that proxy')];
  }
}

/** Whatever it answers, it is there. @throws Unusable when nobody takes the connection */
async function reach(host: string, port: number): Promise<void> {
  try {
    await sendToGateway(new URL(`http://${bracketHost(host)}:${port}/`), '/', { method: 'GET', headers: {}, timeoutMs: CONNECT_MS });
  } catch (error) {
    if (!speaks(error)) throw error;
  }
}
