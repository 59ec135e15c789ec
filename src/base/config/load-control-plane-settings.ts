import { isLoopbackHost } from '../lib/host.ts';
import { CONTROL_PLANE_SETTINGS, type ControlPlaneSettings } from './control-plane-settings.ts';
import { ConfigError, type Environment, guessableTokens, SettingsReader, unknownSettings } from './settings-reader.ts';

export interface LoadedControlPlaneSettings {
  readonly config: ControlPlaneSettings;
  /** One line each: unknown `CP_*` variables, and settings that are allowed but unwise. */
  readonly warnings: readonly string[];
}

/**
 * Reads the settings of the control plane (decision 13.6).
 * @param env default: the environment of the process
 * @param isTerminal whether the log goes to a person
 * @throws ConfigError with all mistakes at once
 */
export function loadControlPlaneSettings(
  env: Environment = process.env,
  isTerminal: boolean = process.stdout.isTTY === true,
): LoadedControlPlaneSettings {
  const reader = new SettingsReader(env);
  const values: Record<string, unknown> = {};
  for (const [member, setting] of Object.entries(CONTROL_PLANE_SETTINGS)) values[member] = reader.read(setting);
  if (isTerminal && !reader.isSet(CONTROL_PLANE_SETTINGS.logFormat.variable)) values['logFormat'] = 'pretty';
  checkTogether(values, reader);
  const unknown = unknownSettings(env, 'CP_', Object.values(CONTROL_PLANE_SETTINGS));
  if (!isSound(values, reader)) throw new ConfigError(reader.problems, unknown);
  return { config: Object.freeze({ ...values }), warnings: [...unknown, ...unwise(values)] };
}

/** Each type made its own member, so values are whole when nobody complained. */
function isSound(values: object, reader: SettingsReader): values is ControlPlaneSettings {
  return reader.problems.length === 0 && Object.keys(CONTROL_PLANE_SETTINGS).every((member) => member in values);
}

function checkTogether(values: Readonly<Record<string, unknown>>, reader: SettingsReader): void {
  const { grpcPort, httpPort, rekorUrl } = values;
  if (httpPort !== 0 && httpPort !== undefined && httpPort === grpcPort)
    reader.problem('CP_HTTP_PORT', `CP_HTTP_PORT: "${String(httpPort)}" is CP_GRPC_PORT too; it takes a port of its own`);
  if (rekorUrl !== undefined && !reader.isSet('CP_REKOR_PUBLIC_KEY_FILE'))
    reader.problem('CP_REKOR_PUBLIC_KEY_FILE', 'CP_REKOR_PUBLIC_KEY_FILE: is needed with CP_REKOR_URL: whose entries are taken');
}

function unwise({ host, names, adminToken, metricsToken }: ControlPlaneSettings): string[] {
  const lines = guessableTokens([
    [CONTROL_PLANE_SETTINGS.adminToken.variable, adminToken],
    [CONTROL_PLANE_SETTINGS.metricsToken.variable, metricsToken],
  ]);
  if (isLoopbackHost(host)) return lines;
  lines.push(
    `CP_HOST: other machines can reach ${host}, where the admin API speaks plain HTTP, so that its token can be read on the way: let only a proxy with TLS reach CP_HTTP_PORT`,
  );
  if (names.every(isLoopbackHost))
    lines.push('CP_NAMES has only names of this machine: gateways on other machines will not accept the certificate');
  return lines;
}
