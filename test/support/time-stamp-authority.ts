import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type HasTeardown, tempDir } from './temp-dir.ts';

/** An authority on a port of this machine, whose stamps openssl makes. */
export interface TestAuthority {
  readonly url: string;
  readonly caFile: string;
  /** What it answers in place of a stamp; undefined: a stamp. */
  answer: { readonly status: number; readonly type: string; readonly body: Buffer } | undefined;
  /** Requests so far, DER. */
  readonly asked: Buffer[];
  /** The answer of openssl to a request. */
  reply(query: Buffer): Buffer;
}

const CONFIG = `
[req]
distinguished_name = dn
[dn]
[ca]
basicConstraints = critical, CA:TRUE
[leaf]
extendedKeyUsage = critical, timeStamping
[tsa]
default_tsa = own
[own]
serial = serial
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
ess_cert_id_alg = sha256
`;

/** @throws Error in the words of openssl */
export function openssl(cwd: string, ...args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync('openssl', args, { cwd, encoding: 'utf8' });
  if (status !== 0) throw new Error(`openssl ${args.join(' ')}: ${stderr}`);
  return stdout + stderr;
}

/** Needs openssl. @param keyArgs of `openssl req`, what key the authority has */
export async function startAuthority(
  t: HasTeardown,
  keyArgs: readonly string[] = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256'],
): Promise<TestAuthority> {
  const dir = tempDir(t);
  writeFileSync(join(dir, 'ca.cnf'), CONFIG);
  writeFileSync(join(dir, 'serial'), '01\n');
  const made = (name: string, extensions: string, ...more: string[]) =>
    openssl(
      dir,
      ...['req', '-x509', '-nodes', '-days', '3650', '-config', 'ca.cnf', '-extensions', extensions, ...keyArgs],
      ...['-subj', `/CN=${name}`, '-keyout', `${name}.key`, '-out', `${name}.pem`, ...more],
    );
  made('root', 'ca');
  made('stamper', 'leaf', '-CA', 'root.pem', '-CAkey', 'root.key');
  const reply = (query: Buffer): Buffer => {
    writeFileSync(join(dir, 'query.tsq'), query);
    openssl(
      dir,
      ...[
        'ts',
        '-reply',
        '-config',
        'ca.cnf',
        '-queryfile',
        'query.tsq',
        '-signer',
        'stamper.pem',
        '-inkey',
        'stamper.key',
        '-out',
        'reply.tsr',
      ],
    );
    return readFileSync(join(dir, 'reply.tsr'));
  };
  const authority = { caFile: join(dir, 'root.pem'), answer: undefined as TestAuthority['answer'], asked: [] as Buffer[], reply };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const query = Buffer.concat(chunks);
      authority.asked.push(query);
      const { status, type, body } = authority.answer ?? { status: 200, type: 'application/timestamp-reply', body: reply(query) };
      response.writeHead(status, { 'content-type': type }).end(body);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => new Promise((resolve) => server.close(resolve)));
  return Object.assign(authority, { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/tsa` });
}
