/*
 * Makes the built-in fetch of Node 20 obey HTTPS_PROXY, HTTP_PROXY and NO_PROXY:
 *
 *   npm install undici@7
 *   HTTPS_PROXY=http://127.0.0.1:7080 NODE_EXTRA_CA_CERTS=ca/root-ca.pem node --import ./node20-proxy.mjs app.js
 *
 * Programs on Node 22.21, 24 and later do not need it: there NODE_USE_ENV_PROXY=1 does the same. It does not reach code that uses node:https
 * or node-fetch instead of fetch; give those a base URL, or their own agent. Keep this file where `undici` can be found.
 */
import { EnvHttpProxyAgent, setGlobalDispatcher } from 'undici';

setGlobalDispatcher(new EnvHttpProxyAgent());
