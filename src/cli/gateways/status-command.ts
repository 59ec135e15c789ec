import { existsSync } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import { messageOf } from '../../base/lib/gateway-error.ts';
import { isLoopbackHost } from '../../base/lib/host.ts';
import type { HealthWarning } from '../../base/model/not-ready.ts';
import { ROOT_CERTIFICATE } from '../../inbound/ca/root-files.ts';
import { readRootState } from '../../inbound/ca/root-state.ts';
import { parseOptions } from '../checked-arguments.ts';
import { type CliIo, type Command, EXIT_NO, EXIT_OK } from '../command.ts';
import { askHealth, type Health } from '../doctor/ask-health.ts';
import { USUAL_WIDTH } from '../folded-text.ts';
import { type GatewayAddress, ownAddress, parseGatewayUrl } from '../gateway-address.ts';
import { URL_OPTION } from '../gateway-client.ts';
import { counted } from '../policy/check-command.ts';
import { asTyped } from '../program-name.ts';
import { type GatewaySettings, settingsOf } from '../settings-of.ts';
import { namedLines, printJsonDocument, terminalText } from '../terminal-text.ts';
import { servedRoots } from '../trust/gateway-roots.ts';
import { fingerprint } from '../trust/trust-place.ts';
import type { FoundBy } from './find-gateway.ts';
import { forgetGateway, isGone, isRunning, type RememberedGateway, rememberedGateways } from './remembered-gateways.ts';

const OPTIONS = { json: { type: 'boolean' }, ...URL_OPTION } as const;

/** Shows which gateway commands use here, and which others there are. */
export const status: Command = {
  name: 'status',
  usage: '[--json] [--url http://HOST:PORT]',
  summary: 'Shows which gateway the commands of this folder use, how they found it and whether it answers; exit code 0 when it does.',
  help: `
  What says which gateway is meant, the first that does: --url; GW_HOST, GW_PORT, GW_DATA_DIR and their kin in the environment; the folder in
  which it was started; the one that was started last. A start notes it in the user's own folder (GW_CONFIG_DIR).

  Calls are taken from the start on. "started just now" is what /healthz calls starting, and /readyz answers 503 to load balancers meanwhile
  (GW_HEALTHZ_STARTUP_GRACE, 10s). Warnings are those of /healthz; gw doctor says what to do about each.
`,
  async run(args, io) {
    const { json = false, url } = parseOptions(args, OPTIONS);
    const forgotten = await forgetGone(settingsOf(io).configDir);
    const config = settingsOf(io, { url });
    const place = url === undefined ? ownAddress(config, io.env) : parseGatewayUrl(url, config, io);
    const seen = await look(place, config, url);
    const meant = config.found?.gateway.settings['GW_DATA_DIR'];
    // One that was named by its address is no other, though its start is noted.
    const named = url === undefined ? undefined : new URL(seen.url).port;
    const others = rememberedGateways(config.configDir).filter(
      ({ settings }) => settings['GW_DATA_DIR'] !== meant && settings['GW_PORT'] !== named,
    );
    if (json) printJsonDocument({ ...seen, others: others.map(told), forgotten: forgotten.map(({ folder }) => folder) }, io);
    else print(seen, others, forgotten, io);
    return seen.answers && seen.problem === undefined ? EXIT_OK : EXIT_NO;
  },
};

/** What `--json` shows; members that are not known are left out. */
interface Seen {
  readonly url: string;
  readonly found_by: FoundBy | 'settings';
  readonly answers: boolean;
  /** As `/healthz` says it. */
  readonly status?: string | undefined;
  /** What `/healthz` warns of. */
  readonly warnings?: readonly HealthWarning[] | undefined;
  readonly node_id?: string | undefined;
  readonly problem?: string | undefined;
  readonly folder?: string | undefined;
  readonly version?: string | undefined;
  readonly started_at?: string | undefined;
  readonly stopped_at?: string | undefined;
  readonly ambient_url?: string | undefined;
  readonly management_url?: string | undefined;
  readonly data_dir: string;
  readonly admin_token: string;
  readonly root_file?: string | undefined;
  /** Of the roots that it hands out; where it does not answer, of those that it handed out at its start. */
  readonly root_sha256?: readonly string[] | undefined;
}

async function look(place: GatewayAddress, config: GatewaySettings, url: string | undefined): Promise<Seen> {
  const gateway = config.found?.gateway;
  const health = await askHealth(place);
  const roots = health.kind === 'gateway' ? await handedOut(place) : undefined;
  const problem = problemOf(health, gateway) ?? (await rootProblem(roots, gateway));
  const shownRoots = roots ?? gateway?.root_sha256;
  return {
    url: place.origin,
    found_by: config.found?.by ?? (url === undefined ? 'settings' : 'option'),
    answers: health.kind === 'gateway',
    ...(health.kind === 'gateway' ? { status: health.status, warnings: health.warnings, node_id: health.nodeId } : {}),
    problem,
    ...(gateway === undefined ? {} : { ...pick(gateway), ...otherPlaces(place, config) }),
    data_dir: config.dataDir,
    admin_token: tokenPlace(config),
    root_file: rootFile(place, config),
    root_sha256: shownRoots,
  };
}

/** The ports that it really has. */
function otherPlaces(place: GatewayAddress, { ambientPort, mgmtPort }: GatewaySettings) {
  return {
    ambient_url: place.withPort(ambientPort).origin,
    management_url: mgmtPort === undefined ? undefined : place.withPort(mgmtPort).origin,
  };
}

/** Undefined where nothing is intercepted, and of a gateway on another machine. */
function rootFile(place: GatewayAddress, { found, proxyMitmEnabled, caDir }: GatewaySettings): string | undefined {
  const isHere = found !== undefined || isLoopbackHost(place.hostname);
  return isHere && proxyMitmEnabled ? join(caDir, ROOT_CERTIFICATE) : undefined;
}

function pick({ folder, version, started_at, stopped_at }: RememberedGateway) {
  return { folder, version, started_at, ...(stopped_at === undefined ? {} : { stopped_at }) };
}

/** Never the token. */
function tokenPlace({ adminToken, dataDir, found }: GatewaySettings): string {
  const file = found?.gateway.settings['GW_ADMIN_TOKEN_FILE'];
  if (adminToken === undefined) return join(dataDir, 'admin-token');
  return file ?? 'GW_ADMIN_TOKEN';
}

function problemOf(health: Health, gateway: RememberedGateway | undefined): string | undefined {
  if (health.kind === 'stranger') return `another program answers there: ${health.says}`;
  if (health.kind === 'nobody') {
    if (gateway === undefined) return `${health.reason}; start one with gw start, or name it with --url`;
    return isRunning(gateway) ? health.reason : `it is not running: gw start in ${gateway.folder} starts it again`;
  }
  if (gateway === undefined || health.nodeId === gateway.node_id) return undefined;
  return `another gateway answers there than the one that was started in ${gateway.folder}: node ${health.nodeId}, not ${gateway.node_id}`;
}

/** Undefined where it hands none out. */
async function handedOut(place: GatewayAddress): Promise<readonly string[] | undefined> {
  const roots = await servedRoots(place).catch(() => undefined);
  return roots?.trusted.map(fingerprint);
}

/** A root that was made since the start is named in its folder (decision 12.10). */
async function rootProblem(roots: readonly string[] | undefined, gateway: RememberedGateway | undefined): Promise<string | undefined> {
  if (roots === undefined || gateway === undefined || gateway.root_sha256.length === 0) return undefined;
  const known = new Set(gateway.root_sha256);
  if (roots.every((one) => known.has(one))) return undefined;
  const { made } = await readRootState(gateway.settings['GW_CA_DIR'] ?? '').catch((error: unknown) => ({ made: [messageOf(error)] }));
  if (roots.every((one) => known.has(one) || made.includes(one))) return undefined;
  return `it hands out another root than at its start: trust it only when you know why (gw doctor)`;
}

/** Those whose folder is gone: nobody will start them again. */
async function forgetGone(configDir: string | undefined): Promise<readonly RememberedGateway[]> {
  if (configDir === undefined) return [];
  const gone = rememberedGateways(configDir).filter((one) => isGone(one) && !isRunning(one));
  // One that cannot be removed now is told of again.
  for (const one of gone) await forgetGateway(configDir, one).catch(() => undefined);
  return gone;
}

function told(one: RememberedGateway) {
  const scheme = one.settings['GW_TLS_CERT_FILE'] === undefined ? 'http' : 'https';
  return { port: Number(one.settings['GW_PORT']), scheme, running: isRunning(one), ...pick(one), data_dir: one.settings['GW_DATA_DIR'] };
}

const BY: Readonly<Record<Seen['found_by'], string>> = {
  option: 'its address, as given',
  environment: 'GW_ variables of this shell',
  folder: 'this folder: it was started here',
  last: 'the one that was started last',
  settings: 'the settings of this shell and folder; no start is noted',
};

/**
 * A file that is not there is said to be so: of a gateway that no start is noted of, its place is a guess from the
 * settings.
 */
function withAbsence(place: string | undefined): string | undefined {
  return place === undefined || !isAbsolute(place) || existsSync(place) ? place : `${place} (not there)`;
}

/** As a person reads it. */
function secondOf(time: string | undefined): string | undefined {
  return time?.replace(/^(\S{10})T(\S{8})\S*$/, '$1 $2Z');
}

/** One with warnings is not called healthy; one that starts takes calls all the same. */
function stateIn({ status: said, warnings = [] }: Seen): string {
  const state = said === 'starting' ? 'started just now, takes calls' : warnings.length > 0 ? 'takes calls' : 'healthy';
  return warnings.length === 0 ? state : `${state}, ${counted(warnings.length, 'warning')}`;
}

function print(seen: Seen, others: readonly RememberedGateway[], forgotten: readonly RememberedGateway[], io: CliIo): void {
  const { answers, node_id: node, version, root_sha256: roots, warnings = [] } = seen;
  const answer = answers ? `yes: ${stateIn(seen)}, node ${node}${version === undefined ? '' : `, version ${version}`}` : 'no';
  const width = io.columns ?? USUAL_WIDTH;
  const since =
    seen.stopped_at === undefined ? secondOf(seen.started_at) : `${secondOf(seen.started_at)}, stopped ${secondOf(seen.stopped_at)}`;
  io.stdout(
    namedLines([
      ['gateway', seen.url],
      ['found by', BY[seen.found_by]],
      ['answers', answer],
      ['problem', seen.problem && asTyped(seen.problem, io.program), width],
      ...warnings.map(({ code, message }) => ['warning', asTyped(`${message} (${code})`, io.program), width] as const),
      ['started', since],
      ['folder', seen.folder],
      ['ambient', seen.ambient_url],
      ['management', seen.management_url],
      ['admin token', withAbsence(seen.admin_token)],
      ['root', withAbsence(seen.root_file)],
      ...(roots ?? []).map((one) => ['root sha256', one] as const),
    ]),
  );
  if (others.length > 0) io.stdout('\nOthers that were started on this machine:\n');
  for (const one of others) {
    const { port, scheme, running, folder, started_at: started } = told(one);
    io.stdout(
      `  ${`${scheme} port ${port}`.padEnd(16)} ${(running ? 'running' : 'not running').padEnd(12)} ${secondOf(started)}  ${terminalText(folder)}\n`,
    );
  }
  for (const { folder, settings } of forgotten)
    io.stdout(
      `\nForgotten: the gateway of ${terminalText(folder)}, whose data folder ${terminalText(settings['GW_DATA_DIR'] ?? '')} is gone.\n`,
    );
}
