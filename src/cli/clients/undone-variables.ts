import { join } from 'node:path';
import type { Config } from '../../base/config/config.ts';
import type { Environment } from '../../base/config/settings-reader.ts';
import { shellVariable } from '../../base/config/settings-reader.ts';
import { bracketHost } from '../../base/lib/host.ts';
import { CLIENT_VARIABLES, nodePreload, otherSpelling, trustFolder, type VariableSource } from './client-variables.ts';
import { FETCHED_ROOTS } from './gateway-certificates.ts';
import { mergedFrom } from './merged-certificates.ts';
import { noProxyBefore } from './no-proxy.ts';
import type { Assignment } from './variable-formats.ts';

/**
 * What takes back what `gw env` has set in a shell: what came of it is taken away, what was there before is there
 * again. Another proxy that was replaced is not known any more.
 * @param env what is set; variables that we did not set are left alone
 * @param port that `gw env` was told, where that is none of the settings
 */
export function undoneVariables(config: Config, env?: Environment, port?: number): readonly Assignment[] {
  const set = { config, env, ports: [config.port, config.ambientPort, ...(port === undefined ? [] : [port])] };
  return CLIENT_VARIABLES.flatMap(([name, source]) => {
    const existing = shellVariable(name, env);
    if (existing === undefined) return [];
    const before = BEFORE[source](existing, set, name);
    return before === existing ? [] : [[name, before === '' ? undefined : before] as const];
  });
}

interface WhatIsSet {
  readonly config: Config;
  readonly env: Environment | undefined;
  /** On which our proxy may be. */
  readonly ports: readonly number[];
}

/** What a variable held before; the same as now when it is none of ours. */
const BEFORE: Readonly<Record<VariableSource, (value: string, set: WhatIsSet, name: string) => string>> = {
  proxy: (value, set) => (isOurProxy(value, set) ? '' : value),
  noProxy: (value, { env }, name) => noProxyBefore(value, otherSpelling(name, env)),
  one: (value) => (value === '1' ? '' : value),
  preload: (value) => value.replace(nodePreload(), '').trim(),
  root: certificatesBefore,
  bundle: certificatesBefore,
  java: (value) => (value.includes('ai-request-gateway') ? value.replace(JAVA_OURS, '').trim() : value),
};

/** What `gw env --java` puts there, whatever the port. */
const JAVA_OURS =
  /(?:"?-D(?:https?\.proxyHost|https?\.proxyPort|javax\.net\.ssl\.trustStore|javax\.net\.ssl\.trustStoreType)=[^\s"]*(?:"|(?=\s|$))\s*)+/;

function isOurProxy(value: string, { config, ports }: WhatIsSet): boolean {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  if (url === undefined) return false;
  const hosts = ['127.0.0.1', '[::1]', 'localhost', ...[config.host, ...config.publicNames].map(bracketHost)];
  return hosts.includes(url.hostname) && ports.includes(Number(url.port));
}

function certificatesBefore(value: string, { config, env }: WhatIsSet): string {
  if (value.startsWith(config.caDir) || value.startsWith(join(trustFolder(env), FETCHED_ROOTS))) return '';
  return mergedFrom(value, trustFolder(env)) ?? value;
}
