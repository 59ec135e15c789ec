/*
 * Makes the fetch of Node 20 obey HTTPS_PROXY, HTTP_PROXY and NO_PROXY, as NODE_USE_ENV_PROXY does from Node 22.21 and
 * 24 on. `gw env` puts it into NODE_OPTIONS, so that every Node of a shell loads it: it does nothing before the first
 * fetch, and nothing at all where Node knows by itself or no proxy is set. It does not reach code that uses node:https
 * (docs/guides/getting-started.md). A version without it that needs no gateway on the machine is
 * docs/examples/node20-proxy.mjs.
 */
'use strict';

/** Where fetch, and every undici, looks for whoever makes its connections. */
const DISPATCHER = Symbol.for('undici.globalDispatcher.1');

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
// The undici that comes with the gateway needs the first, the others know by themselves.
const isForUs = (major > 20 || (major === 20 && minor >= 18)) && major < 24 && !(major === 22 && minor >= 21);
const { HTTPS_PROXY, https_proxy, HTTP_PROXY, http_proxy } = process.env;

if (isForUs && (HTTPS_PROXY || https_proxy || HTTP_PROXY || http_proxy) && globalThis[DISPATCHER] === undefined) {
  let agent;
  // Made by the first request: most programs of a shell never fetch anything.
  const real = () => (agent ??= new (require('undici').EnvHttpProxyAgent)());
  const value = {
    dispatch: (options, handler) => real().dispatch(options, handler),
    close: async () => agent?.close(),
    destroy: async (error) => agent?.destroy(error ?? null),
  };
  // As undici does it, so that a program may still set another.
  Object.defineProperty(globalThis, DISPATCHER, { value, writable: true, enumerable: false, configurable: false });
}
