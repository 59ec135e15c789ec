/*
 * The environment given to processes that these scripts start.
 */

/** Set in a developer's shell so that tools find the gateway; a gateway that obeyed them would call itself. */
const PROXY_VARIABLES =
  /^(https?_proxy|all_proxy|no_proxy|node_use_env_proxy|npm_config_(https?_?)?-?proxy|npm_config_noproxy|global_agent_.*)$/i;

/** A copy without any variable that redirects HTTP traffic. */
export function withoutProxies(environment) {
  const result = Object.fromEntries(Object.entries(environment).filter(([name]) => !PROXY_VARIABLES.test(name)));
  if (result.NODE_OPTIONS !== undefined) result.NODE_OPTIONS = result.NODE_OPTIONS.replace(/(^|\s)--use-env-proxy(?=\s|$)/g, ' ').trim();
  return result;
}

/** As {@link withoutProxies}, without the settings of a gateway either: tests bring their own. */
export function forTests(environment) {
  return Object.fromEntries(Object.entries(withoutProxies(environment)).filter(([name]) => !name.startsWith('GW_')));
}
