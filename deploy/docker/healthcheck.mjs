/*
 * Asks the gateway of the same container whether it is ready: exit code 0 when `GET /readyz` answers 200, 1 with one line otherwise. The image
 * has no curl. Where it listens is read as the gateway reads it, so that a setting means the same to both. Where the ports speak TLS their
 * certificate is not looked at: it is for the names that clients use, not for loopback.
 */
import { request as http } from 'node:http';
import { request as https } from 'node:https';
import { loadConfig } from '../../build/src/base/config/config.js';
import { reachableHost } from '../../build/src/base/config/own-origin.js';

const TIMEOUT_MS = 4_000;

try {
  const { host, port, tlsCertFile } = loadConfig(process.env, false).config;
  if (port === 0) throw new Error('GW_PORT is 0, so that the gateway picked a port itself: give it one');
  const ask = tlsCertFile === undefined ? http : https;
  const options = { host: reachableHost(host), port, path: '/readyz', timeout: TIMEOUT_MS, agent: false, rejectUnauthorized: false };
  const request = ask(options, (response) => {
    response.resume();
    end(response.statusCode === 200, `GET /readyz: ${response.statusCode}`);
  });
  request.on('timeout', () => request.destroy(new Error('no answer within 4 s')));
  request.on('error', (error) => end(false, `GET /readyz: ${error.message}`));
  request.end();
} catch (error) {
  end(false, error.message);
}

function end(ready, text) {
  if (!ready) process.stderr.write(`${text}\n`);
  process.exit(ready ? 0 : 1);
}
