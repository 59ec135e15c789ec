/*
 * Which of the gateways that were started here a command means (decision 12.15): what it is given counts before the
 * environment, that before the folder it is called in, and that before what is remembered.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { type LoadedConfig, loadConfig } from '../../base/config/config.ts';
import type { Environment } from '../../base/config/settings-reader.ts';
import { wholeEnvironment } from '../../base/config/settings-reader.ts';
import { isLoopbackHost } from '../../base/lib/host.ts';
import { isRunning, type RememberedGateway, rememberedGateways } from './remembered-gateways.ts';

/** What options of a command name. */
export interface AskedGateway {
  readonly url?: string | undefined;
  readonly port?: string | undefined;
}

/**
 * `option`: by address or port; `environment`: by variables; `folder`: it was started where the command is called;
 * `last`: it was started last.
 */
export type FoundBy = 'option' | 'environment' | 'folder' | 'last';

export interface FoundGateway {
  readonly gateway: RememberedGateway;
  readonly by: FoundBy;
}

export interface FoundConfig extends LoadedConfig {
  /** Undefined: none that is remembered is meant, and the settings are those of the environment. */
  readonly found: FoundGateway | undefined;
}

/** Variables that say which gateway is meant, and whether one names a folder. */
const NAMING: Readonly<Record<string, boolean>> = {
  GW_HOST: false,
  GW_PORT: false,
  GW_AMBIENT_PORT: false,
  GW_MGMT_PORT: false,
  GW_DATA_DIR: true,
  GW_CA_DIR: true,
};

/**
 * The settings of a gateway that is meant, those of the environment over what is remembered of it.
 * @param folder in which the command is called
 * @throws ConfigError
 */
export function foundConfig(env: Environment | undefined, asked: AskedGateway = {}, folder = process.cwd()): FoundConfig {
  const given = wholeEnvironment(env);
  const own = loadConfig(given);
  const found = meantGateway(rememberedGateways(own.config.configDir), given, asked, folder);
  if (found === undefined) return { ...own, found };
  return { ...loadConfig(withSettings(given, found.gateway)), found };
}

/** What the environment says counts; of an empty variable the default does. */
function withSettings(env: Environment, { settings }: RememberedGateway): Environment {
  const { GW_ADMIN_TOKEN_FILE: tokenFile, ...others } = settings;
  const isTokenGiven = (env['GW_ADMIN_TOKEN'] ?? '') !== '' || (env['GW_ADMIN_TOKEN_FILE'] ?? '') !== '';
  const token = tokenFile === undefined || isTokenGiven || !isReadable(tokenFile) ? {} : { GW_ADMIN_TOKEN_FILE: tokenFile };
  const set = Object.entries(env).filter(([name, value]) => value !== '' && !(name in others && isAny(name, value)));
  return { ...env, ...others, ...token, ...Object.fromEntries(set) };
}

/** A port that the gateway picked itself is known by now. */
function isAny(name: string, value: string | undefined): boolean {
  return name.endsWith('_PORT') && value === '0';
}

function isReadable(file: string): boolean {
  try {
    return readFileSync(file, 'utf8').trim() !== '';
  } catch {
    return false;
  }
}

/** @param all the one that was started last first */
export function meantGateway(
  all: readonly RememberedGateway[],
  env: Environment,
  asked: AskedGateway,
  folder: string,
): FoundGateway | undefined {
  const names = Object.keys(NAMING).filter((name) => (env[name] ?? '') !== '');
  const agreeing = all.filter(({ settings }) => names.every((name) => agrees(name, env[name] ?? '', settings[name], folder)));
  if (asked.url !== undefined || asked.port !== undefined) {
    return liveliest(
      agreeing.filter((one) => isAt(one, asked)),
      'option',
    );
  }
  if (names.length > 0) return liveliest(agreeing, 'environment');
  const here = all.filter((one) => one.folder === folder || one.settings['GW_DATA_DIR'] === join(folder, 'data'));
  if (here.length > 0) return liveliest(here, 'folder');
  return isFolderOfOne(folder) ? undefined : liveliest(all, 'last');
}

function agrees(name: string, value: string, remembered: string | undefined, folder: string): boolean {
  if (isAny(name, value)) return true;
  return (NAMING[name] === true ? resolve(folder, value) : value) === remembered;
}

/** Of one that runs rather than of one that has ended. */
function liveliest(gateways: readonly RememberedGateway[], by: FoundBy): FoundGateway | undefined {
  const gateway = gateways.find(isRunning) ?? gateways[0];
  return gateway && { gateway, by };
}

function isAt({ settings }: RememberedGateway, { url: address, port: given }: AskedGateway): boolean {
  const ports = [settings['GW_PORT'], settings['GW_AMBIENT_PORT'], settings['GW_MGMT_PORT']];
  if (given !== undefined && !ports.includes(given)) return false;
  if (address === undefined) return true;
  if (!URL.canParse(address)) return false;
  const { hostname, port, protocol } = new URL(address);
  const host = hostname.replace(/^\[|\]$/g, '');
  const names = [settings['GW_HOST'], ...(settings['GW_PUBLIC_NAMES'] ?? '').split(',')];
  return (isLoopbackHost(host) || names.includes(host)) && ports.includes(port === '' ? (protocol === 'https:' ? '443' : '80') : port);
}

/** It has what a gateway of the usual settings keeps: what is remembered of others is not meant. */
function isFolderOfOne(folder: string): boolean {
  return existsSync(join(folder, 'data', 'admin-token')) || existsSync(join(folder, 'ca', 'root-ca.pem'));
}
