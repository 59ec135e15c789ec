import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { canonicalJson } from '../../src/base/json/jcs.ts';
import { readWebAddress, type WebAddress } from '../../src/base/lib/web-address.ts';
import type { MerkleRoot } from '../../src/ledger/merkle-root.ts';
import { certificatesOf, checkTimeStamp } from '../../src/ledger/time-stamp-signer.ts';
import { answerAround, hexOfNumber, timeStampRequest, tokenOfAnswer } from '../../src/ledger/time-stamp-token.ts';
import { eventually } from '../support/child.ts';
import { PROTOCOL, runControlPlane, TIMEOUT_MS } from '../support/control-plane.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { skipWithout } from '../support/peers.ts';
import { gw } from '../support/run-gw.ts';
import { tempDir } from '../support/temp-dir.ts';
import { openssl, startAuthority } from '../support/time-stamp-authority.ts';

const HOUR_MS = 3_600_000;
const NEEDS_OPENSSL = { skip: skipWithout(['openssl']) };

t.test('a token of openssl is checked, with keys of both kinds, and each tampering is found', NEEDS_OPENSSL, async (t) => {
  const stranger = await startAuthority(t);
  for (const keyArgs of [undefined, ['-newkey', 'rsa:2048']]) {
    const authority = await startAuthority(t, keyArgs);
    const trusted = certificatesOf(readFileSync(authority.caFile, 'utf8'));
    const imprint = createHash('sha256').update('a root').digest();
    const nonce = Buffer.from('00ff00ff00ff00ff', 'hex');
    const answer = authority.reply(timeStampRequest(imprint, nonce));
    const token = tokenOfAnswer(answer);
    const asked = { imprint: imprint.toString('hex'), nonce: hexOfNumber(nonce), trusted };
    const { time } = checkTimeStamp(token, asked);
    t.ok(Math.abs(Date.parse(time) - Date.now()) < 86_400_000, time);
    t.same(tokenOfAnswer(answerAround(token)), token, 'an answer around a token is one');
    const wrong: readonly (readonly [what: string, token: Buffer, ask: typeof asked, message: RegExp])[] = [
      ['of something else', token, { ...asked, imprint: 'ab'.repeat(32) }, /it is of something else/],
      ['another nonce', token, { ...asked, nonce: '01' }, /it answers another request/],
      [
        'a stranger',
        token,
        { ...asked, trusted: certificatesOf(readFileSync(stranger.caFile, 'utf8')) },
        /none that is trusted \(CN=stamper\)/,
      ],
      ['no DER', Buffer.from('x'), asked, /it cannot be read/],
      ['cut', token.subarray(0, -1), asked, /it cannot be read: it ends too early/],
      ['more behind it', Buffer.concat([token, token]), asked, /something stands behind/],
    ];
    for (const [what, one, ask, message] of wrong) t.throws(() => checkTimeStamp(one, ask), { message }, what);
    t.match(checkTimeStamp(token, { ...asked, trusted: undefined }), { time }, 'of anybody');
    let taken = 0;
    for (let at = 0; at < token.length; at++) {
      const flipped = Buffer.from(token);
      flipped[at] = (token[at] ?? 0) ^ 1;
      try {
        if (checkTimeStamp(flipped, asked).time !== time) t.fail(`byte ${at}: another time is believed`);
        taken++;
      } catch (error) {
        if (!(error instanceof Error) || error.constructor.name !== 'LedgerError') t.fail(`byte ${at}: ${String(error)}`);
      }
    }
    t.ok(taken < 60, `${taken} bytes are of what nobody signs, such as versions`);
  }
  const refused = Buffer.from('3003020102', 'hex');
  t.throws(() => tokenOfAnswer(Buffer.concat([Buffer.of(0x30, refused.length), refused])), {
    message: /the authority refuses it \(status 2\)/,
  });
});

t.test('roots are stamped at once and then in each interval; an authority that is away delays no root', NEEDS_OPENSSL, async (t) => {
  const authority = await startAuthority(t);
  const clock = fakeClock(Date.now());
  const tsaUrl = readWebAddress(authority.url, () => true, true) as WebAddress;
  const started = await runControlPlane(t, { clock }, { tsaUrl, tsaInterval: HOUR_MS, tsaCaFile: authority.caFile });
  const { plane, enrol, dataDir } = started;
  const { client } = await enrol('acme', 'node-1');
  const base = `http://127.0.0.1:${plane.httpPort}`;
  const data = async (path: string) => ((await (await fetch(`${base}/v1/orgs/acme/${path}`)).json()) as { data: never[] }).data;
  const stamps = (): Promise<readonly { sequence: number; time: string; token: string }[]> => data('timestamps');
  const roots = (): Promise<readonly MerkleRoot[]> => data('roots');
  const submit = async (): Promise<void> => {
    const before = (await roots()).length;
    await client.call(PROTOCOL.controlPlane, 'SubmitHashes', { hashes: [randomBytes(32)] }, TIMEOUT_MS);
    clock.advance(1_000);
    await eventually('a root', async () => (await roots()).length > before || undefined);
  };
  const stamped = (count: number) =>
    eventually(`${count} stamps`, async () => {
      clock.advance(0);
      return (await stamps()).length === count || undefined;
    });
  await submit();
  await stamped(1);
  await submit();
  t.equal(authority.asked.length, 1, 'the second root waits for its hour');
  authority.answer = { status: 503, type: 'text/html', body: Buffer.from('<p>later</p>') };
  clock.advance(HOUR_MS);
  const failed = async (count: number) => {
    clock.advance(0);
    return (await (await fetch(`${base}/metrics`)).text()).includes(`cp_timestamps_failed_total ${count}\n`) || undefined;
  };
  await eventually('a failure', () => failed(1));
  await submit();
  t.equal((await roots()).length, 3, 'roots go on');
  authority.answer = {
    status: 200,
    type: 'application/timestamp-reply',
    body: authority.reply(timeStampRequest(randomBytes(32), randomBytes(8))),
  };
  clock.advance(30_000);
  await eventually('another failure: it is a stamp of something else', () => failed(2));
  authority.answer = undefined;
  clock.advance(60_000);
  await stamped(2);
  t.same(
    (await stamps()).map(({ sequence }) => sequence),
    [1, 3],
    'the newest root is stamped',
  );
  t.same(await data('timestamps?after=1&limit=1'), (await stamps()).slice(1));
  const metrics = await (await fetch(`${base}/metrics`)).text();
  t.match(metrics, /^cp_timestamps_made_total 2$/m);
  t.match(metrics, /^cp_timestamp_last_timestamp_seconds 1\d{9}/m);

  const dir = tempDir(t);
  const file = (name: string, content: string | Buffer) => {
    writeFileSync(join(dir, name), content);
    return join(dir, name);
  };
  for (const { sequence, token } of await stamps()) {
    file('root.json', canonicalJson((await roots())[sequence - 1]));
    file('stamp.tsr', answerAround(Buffer.from(token, 'base64')));
    t.match(openssl(dir, 'ts', '-verify', '-data', 'root.json', '-in', 'stamp.tsr', '-CAfile', authority.caFile), /Verification: OK/);
  }
  const ask = async (path: string) => (await fetch(`${base}/v1/${path}`)).text();
  const files = [
    ...['--roots', file('roots.json', await ask('orgs/acme/roots')), '--keys', file('keys.json', await ask('keys'))],
    ...['--timestamps', file('timestamps.json', await ask('orgs/acme/timestamps'))],
  ];
  t.match(await gw(['verify', ...files, '--tsa-ca', authority.caFile]), { code: 0, out: /\n {2}stamp +root 3 was there at 20.*Z\n/ });
  const stranger = await startAuthority(t);
  t.match(await gw(['verify', ...files, '--tsa-ca', stranger.caFile]), {
    code: 1,
    out: /timestamps: root 1: time stamp: its authority is none that is trusted/,
  });
  const [first, second] = await stamps();
  const swapped = JSON.stringify({ data: [{ ...first, token: second?.token }] });
  t.match(await gw(['verify', ...files.slice(0, 4), '--timestamps', file('swapped.json', swapped)]), {
    code: 1,
    out: /root 1: time stamp: it is of something else/,
  });
  t.match(await gw(['verify', '--timestamps', join(dir, 'swapped.json'), '--keys', join(dir, 'keys.json')]), {
    code: 2,
    err: /--timestamps needs --roots/,
  });

  const state = join(dir, 'state.json');
  const watch = () => gw(['verify', '--watch', base, '--state', state, '--org', 'acme']);
  t.match(await watch(), { code: 0, out: /\n {2}stamp {5}root 3 was there at 20.*Z\n$/ });
  t.match(JSON.parse(readFileSync(state, 'utf8')), { stamp: { sequence: 3 } });
  await submit();
  await plane.stop();
  const again = await runControlPlane(t, { clock }, { dataDir, tsaUrl, tsaInterval: HOUR_MS, tsaCaFile: authority.caFile });
  t.equal(again.plane.counts.timestamps.made, 0);
  t.ok((again.plane.counts.timestamps.newestAt ?? 0) > 0, 'what was stamped before is known');
  clock.advance(HOUR_MS);
  await eventually('the root of before the start', async () => {
    clock.advance(0);
    return again.plane.counts.timestamps.made === 1 || undefined;
  });
});

t.test('what cannot be used as a setting is told at the start', async (t) => {
  const env = { CP_DATA_DIR: tempDir(t), CP_HTTP_PORT: '0', CP_GRPC_PORT: '0' };
  for (const [name, value] of [
    ['CP_TSA_URL', 'ftp://tsa.example'],
    ['CP_TSA_INTERVAL', '1s'],
    ['CP_TSA_CA_FILE', '/nonexistent.pem'],
  ] as const)
    t.match(await gw(['control-plane', 'start'], { env: { ...env, [name]: value } }), { code: 2, err: new RegExp(name) });
});
