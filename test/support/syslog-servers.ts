// Syslog servers of others, as tests hold exported events against them.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { testCa } from './certificates.ts';
import { eventually, launch } from './child.ts';
import { requirePeer } from './peers.ts';
import { type HasTeardown, tempDir } from './temp-dir.ts';

/** How a server has read one message. */
export interface ReadMessage {
  readonly pri: string;
  readonly app: string;
  readonly msgid: string;
  readonly sd: string;
  readonly host: string;
  readonly msg: string;
  /** Its structured data by id and name, where the server reads it. */
  readonly fields?: Record<string, unknown>;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** rsyslog on one port for TCP and UDP. */
export async function startRsyslog(t: HasTeardown): Promise<{ readonly tcp: number; messages(): readonly ReadMessage[] }> {
  const dir = tempDir(t);
  const tcp = await freePort();
  const out = join(dir, 'messages');
  writeFileSync(
    join(dir, 'rsyslog.conf'),
    `global(workDirectory="${dir}")
module(load="imtcp")
module(load="imudp")
input(type="imtcp" address="127.0.0.1" port="${tcp}")
input(type="imudp" address="127.0.0.1" port="${tcp}")
template(name="read" type="list" option.jsonf="on") {
  property(outname="pri" name="pri" format="jsonf")
  property(outname="app" name="app-name" format="jsonf")
  property(outname="msgid" name="msgid" format="jsonf")
  property(outname="sd" name="structured-data" format="jsonf")
  property(outname="host" name="hostname" format="jsonf")
  property(outname="msg" name="msg" format="jsonf")
}
action(type="omfile" file="${out}" template="read" asyncWriting="off")
`,
  );
  const program = requirePeer('rsyslog');
  const child = launch(t, program, ['-n', '-f', join(dir, 'rsyslog.conf'), '-i', join(dir, 'pid')]);
  await eventually('rsyslog runs', () => {
    if (child.stderr.includes('error')) throw new Error(child.stderr);
    return existsSync(join(dir, 'pid')) ? true : undefined;
  });
  return { tcp, messages: () => messagesIn(out) };
}

export interface SyslogNg {
  readonly udp: number;
  readonly tcp: number;
  readonly tls: number;
  /** The root of its certificate, which is for `localhost`. */
  readonly caFile: string;
  messages(): readonly ReadMessage[];
}

/** syslog-ng with its driver for RFC 5424, which counts octets on TCP and TLS. */
export async function startSyslogNg(t: HasTeardown): Promise<SyslogNg> {
  const dir = tempDir(t);
  const file = (name: string, text?: string): string => {
    const path = join(dir, name);
    if (text !== undefined) writeFileSync(path, text);
    return path;
  };
  const [udp, tcp, tls] = [await freePort(), await freePort(), await freePort()];
  const ca = testCa();
  const { certPem, keyPem } = ca.leaf({ hosts: ['localhost'] });
  const out = file('messages');
  const config = file(
    'syslog-ng.conf',
    `@version: 3.38
options { keep-hostname(yes); use-dns(no); stats-freq(0); };
source gateway {
  syslog(ip("127.0.0.1") transport("udp") port(${udp}));
  syslog(ip("127.0.0.1") transport("tcp") port(${tcp}));
  syslog(ip("127.0.0.1") transport("tls") port(${tls})
    tls(key-file("${file('key.pem', keyPem)}") cert-file("${file('cert.pem', certPem)}") peer-verify(optional-untrusted)));
};
destination read {
  file("${out}" template("$(format-json --scope none pri=$PRI app=$PROGRAM msgid=$MSGID sd=$SDATA host=$HOST msg=$MESSAGE --key .SDATA.*)\\n"));
};
log { source(gateway); destination(read); };
`,
  );
  const places = ['--persist-file', file('persist'), '--pidfile', file('pid'), '--control', file('control')];
  const child = launch(t, requirePeer('syslog-ng'), ['--foreground', '--stderr', '--no-caps', '--cfgfile', config, ...places]);
  await eventually('syslog-ng runs', () => {
    if (/error/i.test(child.stderr)) throw new Error(child.stderr);
    return existsSync(join(dir, 'control')) ? true : undefined;
  });
  return { udp, tcp, tls, caFile: file('ca.pem', ca.certPem), messages: () => messagesIn(out).map(withFields) };
}

/** Its JSON has what begins with a dot below `_SDATA`. */
function withFields(message: ReadMessage & { readonly _SDATA?: Record<string, unknown> }): ReadMessage {
  return message._SDATA === undefined ? message : { ...message, fields: message._SDATA };
}

function messagesIn(file: string): readonly ReadMessage[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n');
  return lines.filter((line) => line.endsWith('}')).map((line) => JSON.parse(line) as ReadMessage);
}
