/*
 * The environment given to processes that these scripts start.
 */
import { mkdirSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onPath } from './on-path.mjs';

/** Set in a developer's shell so that tools find the gateway; a gateway that obeyed them would call itself. */
const PROXY_VARIABLES =
  /^(https?_proxy|all_proxy|no_proxy|node_use_env_proxy|npm_config_(https?_?)?-?proxy|npm_config_noproxy|global_agent_.*)$/i;

/** A copy without any variable that redirects HTTP traffic. */
export function withoutProxies(environment) {
  const result = Object.fromEntries(Object.entries(environment).filter(([name]) => !PROXY_VARIABLES.test(name)));
  if (result.NODE_OPTIONS !== undefined) result.NODE_OPTIONS = result.NODE_OPTIONS.replace(/(^|\s)--use-env-proxy(?=\s|$)/g, ' ').trim();
  return result;
}

/** What any machine has that runs this at all; everything else that a test starts is a peer. */
const EVERYWHERE = ['cat', 'env', 'mkfifo', 'mount', 'sh', 'true', 'umount'];

/**
 * As {@link withoutProxies}, without the settings of a gateway either: tests bring their own. With `TEST_NO_PEERS=1`
 * they find no program that `npm run peers` would install, wherever it is.
 */
export function forTests(environment) {
  const result = Object.fromEntries(Object.entries(withoutProxies(environment)).filter(([name]) => !name.startsWith('GW_')));
  if (environment.TEST_NO_PEERS === '1') result.PATH = pathWithoutPeers(environment.PATH ?? '');
  return result;
}

/** As {@link forTests}, on a machine that has nothing but Node. */
export function forTestsWithoutPeers(environment) {
  return forTests({ ...environment, TEST_NO_PEERS: '1' });
}

/** A folder that has this Node and {@link EVERYWHERE}, by links. */
function pathWithoutPeers(path) {
  const folder = join(fileURLToPath(new URL('..', import.meta.url)), 'build', '.without-peers');
  mkdirSync(folder, { recursive: true });
  const link = (name, file) => {
    rmSync(join(folder, name), { force: true });
    symlinkSync(file, join(folder, name));
  };
  if (path === folder) return folder;
  link('node', process.execPath);
  for (const name of EVERYWHERE) {
    const file = onPath(name, path);
    if (file !== undefined) link(name, file);
  }
  return folder;
}
