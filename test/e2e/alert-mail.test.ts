// Alert mails by a real mail server that is not ours: TLS before anything is said, a login, and messages in which
// nothing that strangers chose is a header.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { testCa } from '../support/certificates.ts';
import { type Child, eventually, launch } from '../support/child.ts';
import { startTestGateway } from '../support/gateway.ts';
import { managedOf } from '../support/managed.ts';
import { requirePeer, skipWithout } from '../support/peers.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

type Json = Record<string, unknown>;

interface MailServer {
  readonly port: number;
  readonly caFile: string;
  mails(): readonly Json[];
}

async function startMailServer(t: HasTeardown): Promise<MailServer> {
  const dir = tempDir(t);
  const ca = testCa();
  const { certPem, keyPem } = ca.leaf({ hosts: ['localhost', '127.0.0.1'] });
  const file = (name: string, text: string): string => {
    writeFileSync(join(dir, name), text);
    return join(dir, name);
  };
  const program = join(packageRoot(), 'test', 'e2e', 'clients', 'mail-server.py');
  const child: Child = launch(t, requirePeer('python3-aiosmtpd'), [program, file('cert', certPem), file('key', keyPem), 'gw', 'p@ss']);
  const lines = (): string[] => child.stdout.split('\n').filter((line) => line !== '');
  const port = await eventually('the mail server listens', () => (lines().length > 0 ? Number(lines()[0]) : undefined));
  return {
    port,
    caFile: file('ca', ca.certPem),
    mails: () =>
      lines()
        .slice(1)
        .map((line) => JSON.parse(line) as Json),
  };
}

t.test('an alert mail arrives by TLS and login, and says what it is', { skip: skipWithout(['python3-aiosmtpd']) }, async (t) => {
  const server = await startMailServer(t);
  const env = {
    GW_SMTP_URL: `smtp://gw:p%40ss@localhost:${server.port}`,
    GW_SMTP_FROM: 'gateway@example.test',
    GW_UPSTREAM_CA_FILE: server.caFile,
  };
  const { manage } = await managedOf(await startTestGateway(t, { env }));
  const channel = async (name: string, ...to: readonly string[]): Promise<string> => {
    const made = await manage('POST', 'alerts/channels', { name, kind: 'email', config: { to_addresses: to } });
    return String((made.body as Json)['channel_id']);
  };
  const id = await channel('on\r\nBcc: everybody@example.test', 'ops@example.test', 'cto@example.test');
  const tested = (await manage('POST', `alerts/channels/${id}/test`)).body as Json;
  t.match(tested, { delivered: true, detail: /^250 taken/ });
  const [mail] = server.mails();
  t.match(mail, { from: 'gateway@example.test', to: ['ops@example.test', 'cto@example.test'], tls: true, authenticated: true });
  const [head = ''] = String(mail?.['text']).split('\r\n\r\n');
  t.match(head, /^Subject: Test alert\r$/m);
  t.match(head, `Message-ID: <${String(tested['alert_id'])}@example.test>`);
  t.match(head, /^Auto-Submitted: auto-generated\r$/m);
  t.notMatch(head, 'everybody');
  t.match(
    String(mail?.['text']).replaceAll('=\r\n', ''),
    'Bcc: everybody\\u{40}example\\u{2e}test',
    'nothing of a name is a line or an address',
  );
  t.match(head, /^Date: \w{3}, \d\d \w{3} 20\d\d /m);
  const nobody = await channel('nobody', 'nobody@example.test');
  t.match((await manage('POST', `alerts/channels/${nobody}/test`)).body, {
    delivered: false,
    reason: 'client_error',
    detail: /550 no such mailbox/,
  });
  const busy = await channel('busy', 'busy@example.test');
  t.match((await manage('POST', `alerts/channels/${busy}/test`)).body, { delivered: false, reason: 'server_error', detail: /451/ });
});

t.test('a wrong login, a server without trust, and none at all are told apart', { skip: skipWithout(['python3-aiosmtpd']) }, async (t) => {
  const server = await startMailServer(t);
  const from = { GW_SMTP_FROM: 'gateway@example.test' };
  const cases: readonly (readonly [string, Record<string, string>])[] = [
    ['auth_error', { GW_SMTP_URL: `smtp://gw:wrong@localhost:${server.port}`, GW_UPSTREAM_CA_FILE: server.caFile }],
    ['tls_error', { GW_SMTP_URL: `smtp://gw:p%40ss@localhost:${server.port}` }],
    ['unreachable', { GW_SMTP_URL: 'smtp://localhost:1' }],
  ];
  for (const [reason, env] of cases) {
    const { manage } = await managedOf(await startTestGateway(t, { env: { ...from, ...env } }));
    const made = await manage('POST', 'alerts/channels', { name: 'x', kind: 'email', config: { to_addresses: ['ops@example.test'] } });
    const tested = await manage('POST', `alerts/channels/${String((made.body as Json)['channel_id'])}/test`);
    t.match(tested.body, { delivered: false, reason });
    t.notMatch(JSON.stringify(tested.body), 'p@ss');
  }
  t.same(server.mails(), []);
});
