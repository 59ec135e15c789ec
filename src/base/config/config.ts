import { hostname } from 'node:os';
import { canonicalHost, isLoopbackHost } from '../lib/host.ts';
import { sha256Hex } from '../lib/sha256.ts';
import { COMMAND_VARIABLES } from './command-variables.ts';
import { SETTINGS, type SettingValues } from './settings.ts';
import { ConfigError, type Environment, guessableTokens, LATER_SETTINGS, SettingsReader, unknownSettings } from './settings-reader.ts';
import { readTraces, type TraceConfig } from './trace-settings.ts';
import { userFolder } from './user-folder.ts';

/**
 * All settings, checked and ready to use; `nodeId` is never absent. `proxyAuthIsSet`: somebody has thought about who
 * may use the proxy; `policiesDirIsSet`: and about whose policy decides. `traces`: undefined where none are sent.
 * `configDir`: undefined where the user has no folder of his own.
 */
export type Config = Readonly<
  Omit<SettingValues, 'nodeId'> & { nodeId: string; proxyAuthIsSet: boolean; policiesDirIsSet: boolean; traces: TraceConfig | undefined }
>;

export interface LoadedConfig {
  readonly config: Config;
  /** One line each: unknown `GW_*` variables, and settings that are allowed but unwise. */
  readonly warnings: readonly string[];
}

/**
 * Reads the settings.
 * @param env default: the environment of the process; this is the only place that reads it
 * @param isTerminal whether the log goes to a person
 * @throws ConfigError with all mistakes at once
 */
export function loadConfig(env: Environment = process.env, isTerminal = process.stdout.isTTY === true): LoadedConfig {
  const reader = new SettingsReader(env);
  const values = readValues(reader, isTerminal);
  checkTogether(values, reader);
  const { traces, problems, warnings } = readTraces(values);
  for (const [variable, message] of problems) reader.problem(variable, message);
  for (const setting of LATER_SETTINGS) reader.refuseLater(setting);
  if (!isSound(values, reader)) throw new ConfigError(reader.problems, unknownVariables(env));
  const nodeId = values.nodeId ?? derivedNodeId(values.dataDir);
  const proxyAuthIsSet = reader.isSet(SETTINGS.proxyAuth.variable);
  const policiesDirIsSet = reader.isSet(SETTINGS.policiesDir.variable);
  const publicNames = publicNamesOf(values);
  const configDir = userFolder(values.configDir, env);
  return {
    config: Object.freeze({ ...values, nodeId, proxyAuthIsSet, policiesDirIsSet, publicNames, configDir, traces }),
    warnings: [...unknownVariables(env), ...unwise(values), ...warnings],
  };
}

/** Where people reach the gateway is one of its names. */
function publicNamesOf({ publicNames, publicUrl }: SettingValues): ReadonlySet<string> {
  const host = publicUrl === undefined ? undefined : canonicalHost(new URL(publicUrl).hostname);
  return host === undefined ? publicNames : new Set([...publicNames, host]);
}

/**
 * Stable over restarts, different for two gateways on one machine, and tells an upstream that sees it in `Via` nothing.
 */
function derivedNodeId(dataDir: string): string {
  return sha256Hex(`${hostname()}\0${dataDir}`).slice(0, 12);
}

/** Members whose text is bad are undefined; the reader then has the problem. */
function readValues(reader: SettingsReader, isTerminal: boolean): Readonly<Record<string, unknown>> {
  const values: Record<string, unknown> = {};
  for (const [member, setting] of Object.entries(SETTINGS)) values[member] = reader.read(setting);
  if (isTerminal && !reader.isSet(SETTINGS.logFormat.variable)) values['logFormat'] = 'pretty';
  if (!reader.isSet(SETTINGS.managedMode.variable)) values['managedMode'] = values['gatewayMode'] === 'managed';
  return values;
}

/** Each type made its own member, so values are whole when nobody complained. */
function isSound(values: object, reader: SettingsReader): values is SettingValues {
  return reader.problems.length === 0 && Object.keys(SETTINGS).every((member) => member in values);
}

/** Settings that mean nothing without another. */
const NEEDS = [
  ['GW_SMTP_URL', 'GW_SMTP_FROM'],
  ['GW_TLS_CERT_FILE', 'GW_TLS_KEY_FILE'],
  ['GW_TLS_KEY_FILE', 'GW_TLS_CERT_FILE'],
  ['GW_EXPORT_WEBHOOK_TOKEN', 'GW_EXPORT_WEBHOOK_URL'],
  ['GW_CP_ADDR', 'GW_ORG_ID'],
  ['GW_CP_CA_FILE', 'GW_CP_ADDR'],
  ['GW_BOOTSTRAP_TOKEN', 'GW_CP_ADDR'],
] as const;

/** Rules that need more than one setting; a member that is itself bad has been reported already. */
function checkTogether(values: Readonly<Record<string, unknown>>, reader: SettingsReader): void {
  const { host, maxBodyBytes, maxBufferedBytes } = values;
  for (const [variable, needs] of NEEDS) {
    if (reader.isSet(variable) && !reader.isSet(needs)) reader.problem(needs, `${needs} is not set, and ${variable} needs it`);
  }
  if (typeof host === 'string' && !isLoopbackHost(host) && !reader.isSet('GW_PROXY_AUTH')) {
    const choices = 'set it to `required`, or to `optional` if anyone there may use this proxy';
    reader.problem('GW_PROXY_AUTH', `GW_PROXY_AUTH is not set, but other machines can reach GW_HOST "${host}"; ${choices}`);
  }
  checkPorts(values, reader);
  if (reader.isSet('GW_DATABASE_URL') && reader.isSet('GW_CP_ADDR')) {
    reader.problem(
      'GW_DATABASE_URL',
      'GW_DATABASE_URL and GW_CP_ADDR are both set; nodes on one database cannot be governed by a control plane yet',
    );
  }
  if (values['gatewayMode'] === 'managed' && !reader.isSet('GW_CP_ADDR')) {
    reader.problem('GW_CP_ADDR', 'GW_CP_ADDR is not set, and GW_GATEWAY_MODE "managed" needs it');
  }
  checkTelemetryUrl(values, reader);
  if (typeof maxBodyBytes === 'number' && typeof maxBufferedBytes === 'number' && maxBufferedBytes < maxBodyBytes) {
    reader.problem(
      'GW_MAX_BUFFERED_BYTES',
      `GW_MAX_BUFFERED_BYTES: "${maxBufferedBytes}" is not allowed; it takes at least GW_MAX_BODY_BYTES (${maxBodyBytes})`,
    );
  }
}

/** Each port is one of its own. */
function checkPorts({ port, ambientPort, mgmtPort }: Readonly<Record<string, unknown>>, reader: SettingsReader): void {
  if (port !== 0 && port !== undefined && port === ambientPort) {
    reader.problem('GW_AMBIENT_PORT', `GW_AMBIENT_PORT: "${port}" is GW_PORT too; it takes a port of its own`);
  }
  if (mgmtPort !== 0 && mgmtPort !== undefined && (mgmtPort === port || mgmtPort === ambientPort)) {
    const other = mgmtPort === port ? 'GW_PORT' : 'GW_AMBIENT_PORT';
    reader.problem('GW_MGMT_PORT', `GW_MGMT_PORT: "${mgmtPort}" is ${other} too; it takes a port of its own`);
  }
}

/** What is counted leaves in clear only where the operator's own network ends. */
function checkTelemetryUrl({ telemetryUrl: url, egressAllow }: Readonly<Partial<SettingValues>>, reader: SettingsReader): void {
  if (url === undefined || url.tls || egressAllow === undefined) return;
  const { host } = url.authority;
  if (isLoopbackHost(host) || egressAllow.hosts.has(host) || egressAllow.ranges.has(host)) return;
  reader.problem('GW_TELEMETRY_URL', 'GW_TELEMETRY_URL must be an https URL; http is for loopback and hosts of GW_EGRESS_ALLOW');
}

function unwise(values: SettingValues): string[] {
  const beside = 'GW_TELEMETRY_URL is not used: with GW_CP_ADDR usage reports go to the control plane';
  return [
    ...guessableTokens([
      [SETTINGS.adminToken.variable, values.adminToken],
      [SETTINGS.metricsToken.variable, values.metricsToken],
    ]),
    ...(values.cpAddr !== undefined && values.telemetryUrl !== undefined && values.telemetryEnabled ? [beside] : []),
  ];
}

function unknownVariables(env: Environment): string[] {
  return unknownSettings(
    env,
    'GW_',
    [...Object.values(SETTINGS), ...LATER_SETTINGS],
    COMMAND_VARIABLES.map(({ variable }) => variable),
  );
}
