import { renameSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { connect, type TLSSocket } from 'node:tls';
import { type CertificateAndKey, testCa } from './certificates.ts';
import { ADMIN_TOKEN } from './gateway.ts';
import { readUntil } from './raw-clients.ts';
import { type HasTeardown, tempDir } from './temp-dir.ts';

/** A certificate for the ports of a gateway of this machine, in files. */
export interface PortCertificate {
  readonly ca: ReturnType<typeof testCa>;
  readonly caFile: string;
  /** Settings of a gateway that shows it. */
  readonly env: { readonly GW_TLS_CERT_FILE: string; readonly GW_TLS_KEY_FILE: string };
  /** Puts another pair into the files, each by a rename. */
  replace(pair: CertificateAndKey): void;
}

export function portCertificate(t: HasTeardown, hosts: readonly string[] = ['127.0.0.1', 'localhost']): PortCertificate {
  const ca = testCa('Root of a port');
  const folder = tempDir(t);
  const file = (name: string): string => join(folder, name);
  const put = (name: string, text: string): void => {
    writeFileSync(file(`.${name}`), text, { mode: 0o600 });
    renameSync(file(`.${name}`), file(name));
  };
  const replace = ({ certPem, keyPem }: CertificateAndKey): void => {
    put('port.key', keyPem);
    put('port.pem', certPem);
  };
  put('ca.pem', ca.certPem);
  replace(ca.leaf({ hosts }));
  return { ca, caFile: file('ca.pem'), env: { GW_TLS_CERT_FILE: file('port.pem'), GW_TLS_KEY_FILE: file('port.key') }, replace };
}

/** TLS to a port of this machine, the certificate verified. */
export function connectSecure(
  t: HasTeardown,
  port: number,
  caPem: string,
  options: { readonly alpn?: readonly string[]; readonly maxVersion?: 'TLSv1.1' | 'TLSv1.2' } = {},
): Promise<TLSSocket> {
  const { alpn = ['http/1.1'], maxVersion } = options;
  return new Promise((resolve, reject) => {
    // Old versions are below what OpenSSL offers by default.
    const old = maxVersion === 'TLSv1.1' ? ({ minVersion: 'TLSv1', ciphers: 'DEFAULT:@SECLEVEL=0' } as const) : {};
    const version = maxVersion === undefined ? {} : { maxVersion, ...old };
    const socket = connect({ port, host: '127.0.0.1', ca: caPem, ALPNProtocols: [...alpn], ...version });
    t.teardown(() => socket.destroy());
    socket.once('error', reject);
    socket.once('secureConnect', () => {
      socket.off('error', reject).on('error', () => undefined);
      resolve(socket);
    });
  });
}

/** A CONNECT on a connection that stands. */
export async function connectOn(proxy: Socket, authority: string): Promise<string> {
  proxy.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`);
  return readUntil(proxy, '\r\n\r\n');
}

/** One request with the admin token by https. */
export function askSecure(
  port: number,
  caPem: string,
  path: string,
  posted?: object,
): Promise<{ readonly status: number; readonly body: Record<string, unknown> }> {
  return new Promise((resolve, reject) => {
    const call = request(
      {
        port,
        host: '127.0.0.1',
        path,
        method: posted === undefined ? 'GET' : 'POST',
        ca: caPem,
        agent: false,
        headers: { 'GW-Admin-Token': ADMIN_TOKEN },
      },
      (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (piece: string) => (text += piece));
        answer.on('end', () => {
          const isJson = answer.headers['content-type']?.includes('json') === true;
          resolve({ status: answer.statusCode ?? 0, body: isJson ? (JSON.parse(text) as Record<string, unknown>) : { text } });
        });
      },
    );
    call.on('error', reject);
    call.end(posted === undefined ? undefined : JSON.stringify(posted));
  });
}
