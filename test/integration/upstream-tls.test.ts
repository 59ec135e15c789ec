import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { chat, startGoverned } from '../support/governed.ts';
import { connectThrough, h2Request, h2Session } from '../support/raw-clients.ts';
import { tempDir } from '../support/temp-dir.ts';
import { startTlsUpstream, type TlsUpstreamOptions } from '../support/tls-upstream.ts';
import { eachClient, spokenBy } from '../support/upstream-calls.ts';

/** A host of one provider for each fault, and what people read about it. */
const FAULTS: readonly { readonly host: string; readonly upstream: TlsUpstreamOptions; readonly words: RegExp }[] = [
  { host: 'us.api.openai.com', upstream: { certificate: 'expired' }, words: /: its certificate has expired\./ },
  { host: 'eu.api.openai.com', upstream: { certificate: 'not-yet-valid' }, words: /: its certificate is not valid yet\./ },
  { host: 'jp.api.openai.com', upstream: { certificate: 'wrong-host' }, words: /: its certificate is for another host\./ },
  { host: 'in.api.openai.com', upstream: { certificate: 'self-signed' }, words: /: its certificate is self-signed\./ },
  {
    host: 'au.api.openai.com',
    upstream: { certificate: 'untrusted' },
    words: /: its certificate is signed by an issuer that is not trusted/,
  },
  {
    host: 'ae.api.openai.com',
    upstream: { clientCertificate: true },
    words: /: it asks for a client certificate, and the gateway has none \(GW_PROXY_BYPASS passes the host on unopened\)\./,
  },
];
const PATH = '/v1/chat/completions';

eachClient(
  "an upstream's TLS fault is never hidden: each door answers 502 that says which, and keeps a record",
  async (t, _open, client) => {
    const servers = await Promise.all(FAULTS.map(({ host, upstream }) => startTlsUpstream({ hosts: [host], ...upstream })));
    t.teardown(() => Promise.all(servers.map((server) => server.close())));
    const roots = join(tempDir(t), 'roots.pem');
    writeFileSync(roots, servers.map(({ caPem }) => caPem).join('\n'));
    const env = {
      GW_UPSTREAM_CA_FILE: roots,
      GW_UPSTREAM_CONNECT_TO: FAULTS.map(({ host }, i) => `${host}:443=127.0.0.1:${servers[i]?.port}`).join(','),
    };
    const { gw, send, through, execute, recordOf } = await startGoverned(t, { env, ...spokenBy(client) });

    for (const [i, { host, words }] of FAULTS.entries()) {
      const kind = JSON.stringify(FAULTS[i]?.upstream);
      const session = h2Session(await connectThrough(gw.port, `${host}:443`, gw.caPem, { alpn: ['h2'] }), host);
      t.teardown(() => session.destroy());
      const answers = {
        'redirect, by Host': await send({ ...chat([], PATH), host }),
        'redirect, by header': await send(chat(['X-GW-Target-Host', host])),
        'CONNECT, http/1.1': await through(`${host}:443`, chat([], PATH)),
        'CONNECT, h2': await h2Request(session, chat([], PATH)),
      };
      for (const [door, answer] of Object.entries(answers)) {
        const name = `${kind} ${door}`;
        t.match(answer, { status: 502, headers: { 'x-gw-decision': 'error' } }, name);
        t.match(JSON.parse(answer.body.toString()), { reason: words, reason_codes: ['upstream_tls'], error: { message: words } }, name);
        t.match(await recordOf(answer), { decision: 'error', reason: words, reason_codes: ['upstream_tls'], target_host: host }, name);
      }
      const { status, body } = await execute({}, { target_host: host });
      t.match({ status, body }, { status: 502, body: { decision: 'error', reason: words } }, `${kind} structured`);
      const record = await gw.record(String(body['record_id']));
      t.match(record, { decision: 'error', reason: words, reason_codes: ['upstream_tls'], target_host: host }, kind);
      t.equal(servers[i]?.requests.length, 0, `${kind}: nothing was sent`);
    }
  },
);
