/*
 * Asks the gateway of the same container whether it is ready: exit code 0 when `GET /readyz` answers 200, 1 with one line otherwise. The image
 * has no curl. Where the ports speak TLS their certificate is not looked at: it is for the names that clients use, not for loopback.
 */
import { request as http } from 'node:http';
import { request as https } from 'node:https';

const { GW_PORT = '7080', GW_TLS_CERT_FILE } = process.env;
const ask = GW_TLS_CERT_FILE ? https : http;
const options = { host: '127.0.0.1', port: GW_PORT, path: '/readyz', timeout: 4000, rejectUnauthorized: false };

const request = ask(options, (response) => {
  response.resume();
  end(response.statusCode === 200, `GET /readyz: ${response.statusCode}`);
});
request.on('timeout', () => request.destroy(new Error('no answer within 4 s')));
request.on('error', (error) => end(false, `GET /readyz: ${error.message}`));
request.end();

function end(ready, text) {
  if (!ready) process.stderr.write(`${text}\n`);
  process.exit(ready ? 0 : 1);
}
