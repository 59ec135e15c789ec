import type { Config } from '../../base/config/config.ts';
import { shellVariable } from '../../base/config/environment.ts';
import type { Environment } from '../../base/config/settings-reader.ts';
import { bracketHost } from '../../base/lib/host.ts';
import { CLIENT_VARIABLES, NO_PROXY, nodePreload, trustFolder, type VariableSource } from './client-variables.ts';
import { mergedFrom } from './merged-certificates.ts';
import type { Assignment } from './variable-formats.ts';

/**
 * What takes back what `gw env` has set in a shell: what came of it is taken away, what was there before is there again. Another proxy that was replaced is not known any more.
 * @param env what is set; variables that we did not set are left alone
 */
export function undoneVariables(config: Config, env?: Environment): readonly Assignment[] {
  return CLIENT_VARIABLES.flatMap(([name, source]) => {
    const existing = shellVariable(name, env);
    if (existing === undefined) return [];
    const before = BEFORE[source](existing, config, env);
    return before === existing ? [] : [[name, before === '' ? undefined : before] as const];
  });
}

/** What a variable held before; the same as now when it is none of ours. */
const BEFORE: Readonly<Record<VariableSource, (value: string, config: Config, env?: Environment) => string>> = {
  proxy: (value, config) => (isOurProxy(value, config) ? '' : value),
  noProxy: (value) => (value === NO_PROXY ? '' : value.endsWith(`,${NO_PROXY}`) ? value.slice(0, -NO_PROXY.length - 1) : value),
  one: (value) => (value === '1' ? '' : value),
  preload: (value) => value.replace(nodePreload(), '').trim(),
  root: certificatesBefore,
  bundle: certificatesBefore,
  java: (value) => (value.includes('ai-request-gateway') ? value.replace(JAVA_OURS, '').trim() : value),
};

/** What `gw env --java` puts there, whatever the port. */
const JAVA_OURS =
  /(?:"?-D(?:https?\.proxyHost|https?\.proxyPort|javax\.net\.ssl\.trustStore|javax\.net\.ssl\.trustStoreType)=[^\s"]*(?:"|(?=\s|$))\s*)+/;

function isOurProxy(value: string, { port, ambientPort, host }: Config): boolean {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  if (url === undefined) return false;
  const hosts = ['127.0.0.1', '[::1]', 'localhost', bracketHost(host)];
  return hosts.includes(url.hostname) && [port, ambientPort].includes(Number(url.port));
}

function certificatesBefore(value: string, { caDir }: Config, env?: Environment): string {
  if (value.startsWith(caDir)) return '';
  return mergedFrom(value, trustFolder(env)) ?? value;
}
