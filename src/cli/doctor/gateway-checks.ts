import { X509Certificate } from 'node:crypto';
import { accessSync, constants, existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { systemClock, timestamp } from '../../base/lib/clock.ts';
import { messageOf } from '../../base/lib/gateway-error.ts';
import { certificatesIn } from '../../base/lib/pem.ts';
import { loadRoot } from '../../inbound/ca/root-chain.ts';
import { readRootFiles } from '../../inbound/ca/root-files.ts';
import { readRootState, splitRoots } from '../../inbound/ca/root-state.ts';
import { sendToGateway } from '../gateway-client.ts';
import { EXPORT_CHECK, findingsOf, PRICE_CHECK } from './ask-admin.ts';
import { type DoctorCheck, type Finding, ok, type Patient, skipped, warning, wrong } from './finding.ts';
import { CONTROL_PLANE, warningFindings } from './health-warnings.ts';

const DAY_MS = 86_400_000;
const SOON_MS = 30 * DAY_MS;
/** `Date` has whole seconds, and an answer takes a moment. */
const SKEW_MS = 60_000;
/** From here on certificates and approvals go wrong. */
const BAD_SKEW_MS = 3_600_000;

/** What concerns the gateway itself. */
export const GATEWAY_CHECKS: readonly DoctorCheck[] = [
  { id: 'settings', looksAt: 'GW_ variables: values that are not allowed, names that are no settings', look: settings },
  {
    id: 'gateway',
    looksAt:
      'whether a gateway answers at its address, another program, or nobody; what it says is wrong with it (`warnings` of `/healthz`)',
    look: gateway,
  },
  { id: 'data', looksAt: 'the data folder: whether this user may write there, and its format', look: data },
  { id: 'root', looksAt: 'the files of the root: there, readable by nobody else, a pair, valid now and for 30 days', look: root },
  { id: 'root-served', looksAt: 'whether the gateway hands out the root that is in GW_CA_DIR', look: rootServed },
  {
    id: 'control-plane',
    looksAt: 'with a control plane: whether there is contact, since when not, and when the certificate of the node ends',
    look: controlPlane,
  },
  { id: 'clock', looksAt: 'how far the clock of the gateway is from the one of this machine', look: clock },
  { id: 'pinned', looksAt: 'hosts whose clients did not take our certificate (needs the admin token)', look: pinned },
  {
    id: 'connectors',
    looksAt:
      'hosts at which an org has a connector, and whose clients all passed it by: none said that it is of that org (needs the admin token)',
    look: passedBy,
  },
  PRICE_CHECK,
  EXPORT_CHECK,
];

function settings({ mistakes, warnings }: Patient): readonly Finding[] {
  const found = [
    ...mistakes.map((one) => wrong('settings', one, 'correct it: no gateway starts with it (docs/reference/settings.md)')),
    ...warnings.map((one) => warning('settings', one, 'correct the name or the value, or unset it')),
  ];
  return found.length > 0 ? found : [ok('settings', 'all GW_ variables are settings, and their values are allowed')];
}

function gateway(patient: Patient): readonly Finding[] {
  const { health, url } = patient;
  const place = url?.origin ?? 'GW_PORT';
  if (health.kind === 'gateway') {
    return [
      ...warningFindings('gateway', health.warnings),
      ok('gateway', `the gateway ${health.nodeId} answers at ${place} (${health.status})`),
    ];
  }
  if (health.kind === 'stranger')
    return [wrong('gateway', `another program answers at ${place}: ${health.says}`, 'stop that program, or set GW_PORT to another port')];
  return [nobodyThere(patient, health.reason)];
}

/** What the address itself knows to do comes as the remedy, and no place is named twice. */
function nobodyThere({ url, config, mistakes }: Patient, reason: string): Finding {
  const id = 'gateway';
  if (url === undefined) {
    if (mistakes.length > 0) return skipped(id, 'which one is meant is not known while a setting is not valid (--url names one)');
    const isAny = config?.port === 0;
    const then = isAny
      ? 'GW_PORT is 0, so that it took any: give its address with --url'
      : 'start it with gw start, or give its address with --url';
    return wrong(id, `no gateway answers at GW_PORT: ${reason}`, then);
  }
  const { origin, hint } = url;
  const why = reason.replace(`${origin} cannot be asked: `, '').replace(`; ${hint}`, '');
  return wrong(id, `no gateway answers at ${origin}: ${why}`, hint ?? 'start it with gw start, or give its address with --url');
}

function controlPlane({ health }: Patient): readonly Finding[] {
  const id = 'control-plane';
  if (health.kind !== 'gateway') return [skipped(id, 'no gateway answers')];
  const { status, posture, offlineSince, certificateExpiresAt } = health.controlPlane;
  if (status === undefined || status === 'unconfigured') return [skipped(id, 'the gateway has no control plane (GW_CP_ADDR)')];
  const then = 'docs/guides/control-plane.md says how; the log of the gateway says more';
  const told = health.warnings.filter(({ code }) => code.startsWith(CONTROL_PLANE)).map(({ message }) => warning(id, message, then));
  const certificate = `the certificate of the node ends at ${certificateExpiresAt ?? 'a time that is not said'}`;
  if (status === 'connected') return [...told, ok(id, `connected to the control plane; ${certificate}`)];
  const look = 'see whether it runs where GW_CP_ADDR says, and what the log of the gateway says of it';
  const text = `no contact with the control plane since ${offlineSince ?? 'its start'} (${posture ?? 'normal'}); ${certificate}`;
  return [...told, posture === 'strict' ? wrong(id, `${text}: nobody is served`, look) : warning(id, text, look)];
}

async function data({ config, elsewhere }: Patient): Promise<readonly Finding[]> {
  if (config === undefined || elsewhere) return [skipped('data', 'the folder is another machine’s, or the settings are not valid')];
  const folder = resolve(config.dataDir);
  if (!existsSync(folder)) return [ok('data', `${folder} is not there yet: the first start makes it`)];
  try {
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK);
    const { storeFormat } = await import('../../app/data-folder.ts');
    const format = await storeFormat(folder);
    if (format === undefined) return [ok('data', `${folder} can be written, and has no store yet`)];
    const { found, reads } = format;
    // An older one is read and brought up to date by the start.
    if (found <= reads) return [ok('data', `${folder} can be written (format ${found})`)];
    return [
      wrong('data', `${folder} has format ${found}; this version reads up to ${reads}`, 'use the version of the gateway that wrote it'),
    ];
  } catch (error) {
    return [wrong('data', `GW_DATA_DIR: ${messageOf(error)}`, `run this and the gateway as the user whom ${folder} belongs to`)];
  }
}

async function root({ config, elsewhere }: Patient): Promise<readonly Finding[]> {
  if (config === undefined || elsewhere) return [skipped('root', 'the folder is another machine’s, or the settings are not valid')];
  if (!config.proxyMitmEnabled) return [ok('root', 'nothing is intercepted (GW_PROXY_MITM_ENABLED=false), so that no root is needed')];
  const { caDir } = config;
  try {
    const files = await readRootFiles(caDir);
    if (files === undefined) return [ok('root', `${resolve(caDir)} has no root yet: the first start makes it`)];
    await readRootState(caDir);
    const { signing } = splitRoots(files.certificate, files.key);
    const certificate = signing.length === 0 ? files.certificate : signing.join('\n');
    const now = systemClock.now();
    const { warnings, issuer, fingerprint } = loadRoot(caDir, { certificate, key: files.key }, now);
    const { notAfter } = issuer.validity;
    const soon = notAfter - now < SOON_MS;
    return [
      soon
        ? warning('root', `the root ends at ${timestamp(notAfter)}`, 'make the next one: gw ca rotate')
        : ok('root', `the root ${fingerprint.slice(0, 16)}… signs until ${timestamp(notAfter)}`),
      ...warnings.map((one) => warning('root', one, 'see ca/README.md')),
    ];
  } catch (error) {
    return [wrong('root', messageOf(error), 'no gateway starts with it; clients refuse what it would sign')];
  }
}

async function rootServed({ config, url, health }: Patient): Promise<readonly Finding[]> {
  if (health.kind !== 'gateway' || url === undefined) return [skipped('root-served', 'no gateway answers')];
  const { status, text } = await sendToGateway(url, '/v1/proxy/ca.crt', { method: 'GET', headers: {} });
  if (status === 404) return [ok('root-served', 'the gateway intercepts nothing and hands no root out')];
  const served = certificatesIn(text).map((pem) => new X509Certificate(pem));
  const ended = served.filter(({ validTo }) => Date.parse(validTo) <= systemClock.now());
  if (ended.length > 0)
    return [
      wrong(
        'root-served',
        `the root that the gateway hands out ended at ${ended[0]?.validTo}`,
        'make a new one (docs/guides/operations.md)',
      ),
    ];
  const file = config && join(config.caDir, 'root-ca.pem');
  const here =
    file !== undefined && existsSync(file) ? certificatesIn(readFileSync(file, 'utf8')).map((pem) => new X509Certificate(pem)) : [];
  if (here.length === 0) return [ok('root-served', 'the gateway hands a root out; GW_CA_DIR of this shell has none')];
  const same = served.every((one) => here.some(({ fingerprint256 }) => fingerprint256 === one.fingerprint256));
  if (same) return [ok('root-served', 'the gateway hands out the root that is in GW_CA_DIR')];
  return [
    wrong(
      'root-served',
      `the gateway hands out another root than the one in ${resolve(config?.caDir ?? '')}`,
      'run this with the GW_CA_DIR of the gateway: files of this folder make no client trust it',
    ),
  ];
}

function clock({ health }: Patient): readonly Finding[] {
  if (health.kind !== 'gateway' || health.skewMs === undefined) return [skipped('clock', 'no gateway answers with its time')];
  const seconds = Math.round(Math.abs(health.skewMs) / 1_000);
  if (seconds * 1_000 <= SKEW_MS) return [ok('clock', 'the clocks agree')];
  const found = `the clock of the gateway is ${seconds} s ${health.skewMs > 0 ? 'ahead of' : 'behind'} the one of this machine`;
  const then = 'set both by a time service: certificates are made for the time of the gateway';
  return [seconds * 1_000 >= BAD_SKEW_MS ? wrong('clock', found, then) : warning('clock', found, then)];
}

interface MetDomain {
  readonly domain: string;
  readonly pinned: boolean;
  readonly org_connector?: boolean;
  readonly connections: number;
  readonly requests: number;
}

function aboutDomains(
  id: string,
  patient: Patient,
  judge: (domains: readonly MetDomain[]) => readonly Finding[],
): Promise<readonly Finding[]> {
  type Answer = { readonly domains: readonly MetDomain[] };
  return findingsOf<Answer>(id, patient, '/v1/admin/discovery/domains', ({ domains }) => judge(domains));
}

function pinned(patient: Patient): Promise<readonly Finding[]> {
  return aboutDomains('pinned', patient, (domains) => {
    const hosts = domains.filter((one) => one.pinned).map(({ domain }) => domain);
    if (hosts.length === 0) return [ok('pinned', 'no client has refused our certificate')];
    const then =
      'let the program trust the root and start it again (gw env: NODE_EXTRA_CA_CERTS for Node, JAVA_TOOL_OPTIONS for Java; gw trust); one that pins its own certificate: name the host in GW_PROXY_BYPASS';
    return hosts.map((host) => warning('pinned', `a client of ${host} did not take our certificate`, then));
  });
}

/** Of a tunnel that was opened every request is seen; none at all: nobody there was known as of the org. */
function passedBy(patient: Patient): Promise<readonly Finding[]> {
  const id = 'connectors';
  return aboutDomains(id, patient, (domains) => {
    const found = domains.filter((one) => one.org_connector === true && one.connections > 0 && one.requests === 0);
    if (found.length === 0) return [ok(id, 'of each connector of an org some client comes to the gateway')];
    const then = 'let clients of that org show its API key or its workload to the proxy (docs/guides/custom-connectors.md, Calling it)';
    return found.map(({ domain }) =>
      warning(id, `an org has a connector at ${domain}, and no client there said that it is of that org: nothing was governed`, then),
    );
  });
}
