// Roots are entered in a transparency log: when, what is taken of what it answers, and what is tried again.
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { readWebAddress, type WebAddress } from '../../src/base/lib/web-address.ts';
import type { ControlPlaneConfig } from '../../src/control-plane/app/control-plane-config.ts';
import type { MerkleRoot } from '../../src/ledger/merkle-root.ts';
import type { ListedLogEntry } from '../../src/ledger/root-entry.ts';
import { eventually } from '../support/child.ts';
import { runControlPlane } from '../support/control-plane.ts';
import { type FakeClock, fakeClock } from '../support/fake-clock.ts';
import { heardLog } from '../support/heard-log.ts';
import { gw } from '../support/run-gw.ts';
import { tempDir } from '../support/temp-dir.ts';
import { startLog, type TestLog } from '../support/transparency-log.ts';

const HOUR_MS = 3_600_000;
/** From a failure to the next try. */
const RETRY_MS = 30_000;
const ANSWER_MS = 15_000;

interface Logged {
  readonly base: string;
  readonly dataDir: string;
  readonly clock: FakeClock;
  /** Lines of the log that say that an entry was not made. */
  readonly failures: () => readonly string[];
  readonly counts: () => { readonly made: number; readonly failed: number };
  roots(org?: string): Promise<readonly MerkleRoot[]>;
  entries(query?: string, org?: string): Promise<readonly (ListedLogEntry & { readonly time: string })[]>;
  /** Makes one more root of an org. */
  grow(org?: string): Promise<void>;
  /** Until it is so, with all that is due now. */
  soon(what: string, isSo: () => boolean): Promise<void>;
  /** Until so many entries were made, or tries failed, since the start. */
  until(which: 'made' | 'failed', count: number): Promise<void>;
  /** Another key of the ledger signs from now on. */
  rotate(): Promise<void>;
  stop(): Promise<void>;
}

function settingsOf(log: TestLog): Partial<ControlPlaneConfig> {
  const rekorUrl = readWebAddress(log.url, () => true, true) as WebAddress;
  return { rekorUrl, rekorInterval: HOUR_MS, rekorPublicKeyFile: log.keyFile };
}

/** A control plane whose ledgers grow by one root at a time. */
async function logging(t: Test, config: Partial<ControlPlaneConfig>, clock = fakeClock()): Promise<Logged> {
  const heard = heardLog();
  const { plane, dataDir, commit } = await runControlPlane(t, { clock, log: heard.log }, config);
  const base = `http://127.0.0.1:${plane.httpPort}`;
  const list = async (path: string) => ((await (await fetch(`${base}/v1/orgs/${path}`)).json()) as { data: never[] }).data;
  const roots: Logged['roots'] = (org = 'acme') => list(`${org}/roots`);
  const counts = () => plane.counts.logEntries;
  const soon: Logged['soon'] = async (what, isSo) => {
    await eventually(what, () => {
      clock.advance(0);
      return isSo() || undefined;
    });
  };
  return {
    base,
    dataDir,
    clock,
    failures: () => heard.lines.filter((line) => line.includes('was not entered in the transparency log')),
    counts,
    roots,
    entries: (query = '', org = 'acme') => list(`${org}/log-entries${query}`),
    async grow(org = 'acme') {
      if (plane.state.registers.register.find(org) === undefined) await plane.state.orgs.put(org, {}, commit);
      const before = (await roots(org)).length;
      await plane.state.registers.ledgers.submit(org, [randomBytes(32)]);
      clock.advance(1_000);
      await eventually('a root', async () => (await roots(org)).length > before || undefined);
    },
    soon,
    until: (which, count) => soon(`${count} ${which}`, () => counts()[which] >= count),
    rotate: async () => void (await plane.state.rotations.rotate('ledger', 0, commit)),
    stop: () => plane.stop(),
  };
}

t.test('the newest root of each org is entered at once and then in each interval, and a restart repeats nothing', async (t) => {
  const log = await startLog(t);
  const { grow, entries, roots, clock, until, base, stop, dataDir, counts } = await logging(t, settingsOf(log));
  await grow();
  await until('made', 1);
  await grow();
  await grow('other');
  await until('made', 2);
  t.same(log.orgs, ['acme', 'other'], 'the second root of the first org waits for its hour');
  clock.advance(HOUR_MS);
  await until('made', 3);
  t.same(log.orgs, ['acme', 'other', 'acme'], 'nothing is entered twice: the other org has no newer root');
  const made = await entries();
  t.match(made, [
    { sequence: 1, time: '2026-09-21T14:13:20.000Z' },
    { sequence: 2, time: '2026-09-21T14:13:22.000Z', entry: { logIndex: 4_163_433 } },
  ]);
  t.same(await entries('?after=1&limit=1'), made.slice(1));
  t.same(await entries('?after=2'), []);
  t.equal((await fetch(`${base}/v1/orgs/nobody/log-entries`)).status, 404);
  const metrics = await (await fetch(`${base}/metrics`)).text();
  for (const line of [/^cp_log_entries_made_total 3$/m, /^cp_log_entries_failed_total 0$/m, /^cp_log_entry_last_timestamp_seconds 1\d{9}/m])
    t.match(metrics, line);
  t.equal(counts().failed, 0);
  await grow('other');
  const asked = log.asked.length;
  await stop();

  const again = await logging(t, { ...settingsOf(log), dataDir }, clock);
  t.same(await again.entries(), made, 'what was entered before is shown');
  clock.advance(HOUR_MS);
  await again.until('made', 1);
  t.same(log.orgs.slice(3), ['other'], 'the root of before the start is entered, and no other');
  t.equal(log.asked.length, asked + 1);
  t.equal((await roots('other').catch(() => again.roots('other'))).length, 2);
  await again.stop();

  const without = await logging(t, { dataDir }, clock);
  await without.grow();
  clock.advance(HOUR_MS);
  t.same(await without.entries(), made, 'without a log what was entered before is shown');
  t.equal(log.asked.length, asked + 1, 'and nobody is asked');
});

t.test('an entry that is there already is fetched', async (t) => {
  const log = await startLog(t);
  const { grow, entries, until, clock, failures } = await logging(t, settingsOf(log));
  // As where the process ended between the answer and its commit.
  log.answer = (_org, would) => {
    would();
    log.answer = undefined;
    return { status: 503, body: '{}' };
  };
  await grow();
  await until('failed', 1);
  clock.advance(RETRY_MS);
  await until('made', 1);
  t.equal(log.leaves.length, 1);
  t.match(log.asked, [/^POST/, /^POST/, /^GET \/base\/api\/v1\/log\/entries\/24296fb24b8ad77a[0-9a-f]{64}$/]);
  t.match(await entries(), [{ sequence: 1 }]);
  t.match(failures(), [/answered 503: CP_REKOR_URL/]);

  const places: readonly (readonly [location: string | undefined, reason: RegExp])[] = [
    [undefined, /does not say where/],
    [`https://elsewhere.example/${'ab'.repeat(40)}`, /does not say where/],
    ['/api/v1/log/entries/', /does not say where/],
  ];
  for (const [at, [location, reason]] of places.entries()) {
    const org = `org-${at}`;
    log.answer = () => ({ status: 409, body: '{}', ...(location !== undefined && { headers: { location } }) });
    await grow(org);
    await until('failed', 2 + at);
    t.match(failures().at(-1), reason);
  }
  t.equal(log.asked.filter((line) => line.startsWith('GET')).length, 1, 'nobody is asked for another entry');
});

t.test('an answer that does not hold is not kept, and keeps no other org waiting', async (t) => {
  const log = await startLog(t);
  const stranger = await startLog(t);
  const { grow, entries, until, clock, failures, roots } = await logging(t, settingsOf(log));
  await grow('bystander');
  await until('made', 1);
  const first = log.leaves[0] ?? Buffer.alloc(0);
  const named = (entry: unknown) => JSON.stringify({ ['ab'.repeat(32)]: entry });
  const wrong: readonly (readonly [what: string, set: () => void, reason: RegExp])[] = [
    ['another promise', () => (log.tamper = (entry) => entry.integratedTime++), /signedEntryTimestamp does not fit/],
    [
      'another path',
      () => (log.tamper = ({ verification }) => verification.inclusionProof.hashes.reverse().push('00'.repeat(32))),
      /its path is not that of leaf/,
    ],
    [
      'another tree',
      () => (log.tamper = ({ verification }) => (verification.inclusionProof.rootHash = 'ab'.repeat(32))),
      /its path does not lead to rootHash/,
    ],
    ['another key', () => (log.tamper = (entry) => stranger.signAnew(entry)), /signedEntryTimestamp does not fit/],
    [
      'a checkpoint of another key',
      () =>
        (log.tamper = (entry) => {
          const promise = entry.verification.signedEntryTimestamp;
          stranger.signAnew(entry);
          entry.verification.signedEntryTimestamp = promise;
        }),
      /its log has not signed the checkpoint/,
    ],
    ['another name', () => (log.answer = (_org, would) => ({ ...would(), body: named({}) })), /verification is not an object/],
    [
      'an entry of something else',
      () =>
        (log.answer = (_org, would) => {
          const { status, body } = would();
          const [entry] = Object.values(JSON.parse(body) as object) as { body: string }[];
          const other = { ...entry, body: first.toString('base64') };
          return { status, body: JSON.stringify({ [body.slice(2, 82)]: other }) };
        }),
      /its name is that of another one/,
    ],
    ['what is no JSON', () => (log.answer = () => ({ status: 201, body: '<p>' })), /it cannot be read/],
    [
      'a refusal',
      () => (log.answer = () => ({ status: 400, body: '{"message":"not\\u0000 \u0007here"}' })),
      /answered 400 \(not\\u0000 {2}here\): CP_REKOR_URL/,
    ],
  ];
  for (const [at, [what, set, reason]] of wrong.entries()) {
    set();
    const org = `org-${at}`;
    await grow(org);
    await until('failed', at + 1);
    t.match(failures().at(-1), reason, what);
    t.same(await entries('', org), [], `${what} is not kept`);
    log.tamper = undefined;
    log.answer = undefined;
    await grow(`good-${at}`);
    await until('made', at + 2);
  }
  t.equal(failures().length, wrong.length, 'one line for each');
  clock.advance(RETRY_MS);
  await until('made', 1 + 2 * wrong.length);
  for (const at of wrong.keys()) t.match(await entries('', `org-${at}`), [{ sequence: 1 }], 'it is tried again');
  t.equal((await roots('org-0')).length, 1);
});

t.test('a log that is away, too slow or too long is asked again later and later, and no root waits for it', async (t) => {
  const log = await startLog(t);
  const { grow, roots, until, soon, clock, failures, counts } = await logging(t, settingsOf(log));
  log.answer = () => ({ status: 500, body: '{"code":500,"message":"Unexpected result from transparency log"}' });
  await grow();
  await grow('other');
  await until('failed', 1);
  t.match(failures(), [/answered 500 \(Unexpected result from transparency log\): CP_REKOR_URL/]);
  t.equal(log.asked.length, 1, 'no other org is tried before the log answers');
  log.answer = () => undefined;
  clock.advance(RETRY_MS);
  await soon('that it is asked', () => log.asked.length === 2);
  clock.advance(ANSWER_MS);
  await until('failed', 2);
  log.answer = () => ({ status: 201, body: `{"x":"${'x'.repeat(70_000)}"}` });
  clock.advance(2 * RETRY_MS);
  await until('failed', 3);
  t.equal(failures().length, 1, 'one line for each time it breaks');
  await grow();
  t.equal((await roots()).length, 2, 'roots go on');
  log.answer = undefined;
  t.equal(counts().made, 0);
  clock.advance(4 * RETRY_MS);
  await until('made', 2);
  t.same([...log.orgs].sort(), ['acme', 'other']);
});

t.test('an org for whose roots the log never answers keeps no other waiting', async (t) => {
  const log = await startLog(t);
  const { grow, until, soon, clock } = await logging(t, settingsOf(log));
  log.answer = (org, would) => (org === 'stuck' ? undefined : would());
  await grow('stuck');
  await soon('that it is asked', () => log.asked.length === 1);
  await grow('free');
  await grow('too');
  clock.advance(ANSWER_MS);
  await until('failed', 1);
  clock.advance(RETRY_MS);
  await until('made', 2);
  t.same(log.orgs, ['free', 'too']);
});

t.test('what was entered is checked by gw verify and by a watcher', async (t) => {
  const log = await startLog(t);
  const stranger = await startLog(t);
  const { grow, entries, until, clock, base, rotate } = await logging(t, settingsOf(log));
  await grow('other');
  await until('made', 1);
  await grow();
  await until('made', 2);
  const dir = tempDir(t);
  const file = (name: string, content: string) => {
    writeFileSync(join(dir, name), content);
    return join(dir, name);
  };
  const state = join(dir, 'state.json');
  const watch = (...more: string[]) => gw(['verify', '--watch', base, '--state', state, '--org', 'acme', ...more]);
  t.match(await watch(), { code: 0, out: /\n {2}log {7}root 1 was entered at 2026-09-21T14:13:21\.000Z; whose log it is was not checked/ });
  await rotate();
  await grow();
  clock.advance(HOUR_MS);
  await until('made', 3);
  t.match(await watch('--rekor-key', stranger.keyFile), { code: 1, out: /root 2: log entry: its log is none whose key is believed/ });
  t.match(await watch('--rekor-key', log.keyFile, '--json'), {
    code: 0,
    out: /"entered":\{"sequence":2,"time":"2026-09-21T14:13:22\.000Z"\}/,
  });
  t.match(await watch('--rekor-key', log.keyFile), { code: 0, out: /\n {2}log {7}root 2 was entered at 2026-09-21T14:13:22\.000Z\n/ });

  const ask = async (path: string) => (await fetch(`${base}/v1/${path}`)).text();
  const chain = ['--roots', file('roots.json', await ask('orgs/acme/roots')), '--keys', file('keys.json', await ask('keys'))];
  const page = file('entries.json', await ask('orgs/acme/log-entries'));
  const verify = (...more: string[]) => gw(['verify', ...chain, ...more]);
  t.match(await verify('--log-entries', page, '--rekor-key', log.keyFile), {
    code: 0,
    out: /\n {2}log +root 2 was entered at 2026-09-21T14:13:22\.000Z\n/,
  });
  t.match(await verify('--log-entries', page), { code: 0, out: /\n {2}note +whose log it is was not checked/ });
  t.match(JSON.parse((await verify('--log-entries', page, '--rekor-key', log.keyFile, '--json')).out), { entered: { sequence: 2 } });
  const lines = (await entries()).map((one) => `${JSON.stringify(one)}\n`);
  t.match(await verify('--log-entries', file('entries.ndjson', lines.join('')), '--rekor-key', log.keyFile), { code: 0 });
  const [first, second] = await entries();
  const others = await entries('', 'other');
  const wrong: readonly (readonly [rows: readonly unknown[], more: readonly string[], out: RegExp])[] = [
    [[first], ['--rekor-key', stranger.keyFile], /root 1: log entry: its log is none whose key is believed/],
    [[{ ...first, sequence: 2 }], [], /root 2: log entry: it is of something else than this root/],
    [[{ ...others[0], sequence: 1 }], [], /root 1: log entry: it is of something else than this root/],
    [[{ ...second, sequence: 3 }], [], /root 3 is not among the roots that were given, and has an entry/],
    [[first, first], [], /log entry: root 1 has two/],
    [[{ ...first, uuid: second?.uuid }], [], /log entry: its name is that of another one/],
  ];
  for (const [at, [rows, more, out]] of wrong.entries()) {
    const changed = file(`wrong-${at}.json`, JSON.stringify({ data: rows }));
    t.match(await verify('--log-entries', changed, ...more), { code: 1, out });
  }
  const unusable: readonly (readonly [args: readonly string[], err: RegExp])[] = [
    [[...chain, '--rekor-key', log.keyFile], /--rekor-key needs --log-entries, or --watch/],
    [[...chain.slice(2), '--log-entries', page], /--log-entries needs --roots/],
    [[...chain, '--log-entries', page, '--rekor-key', file('no.pem', 'x')], /no\.pem: there is no public key in it/],
    [['--watch', base, '--state', state, '--rekor-key', join(dir, 'absent.pem')], /absent\.pem/],
  ];
  for (const [args, err] of unusable) t.match(await gw(['verify', ...args]), { code: 2, err });
  t.match(await gw(['control-plane', 'log-entry', 'list', 'acme', '--url', base, '--json']), { code: 0, out: /"sequence":\s*2/ });
});

t.test('what cannot be used as a setting is told at the start', async (t) => {
  const dir = tempDir(t);
  const log = await startLog(t);
  writeFileSync(join(dir, 'broken.pem'), '-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n');
  const env = { CP_DATA_DIR: join(dir, 'data'), CP_HTTP_PORT: '0', CP_GRPC_PORT: '0', CP_REKOR_URL: log.url };
  const key = { CP_REKOR_PUBLIC_KEY_FILE: log.keyFile };
  const wrong: readonly (readonly [settings: Readonly<Record<string, string>>, err: RegExp])[] = [
    [{ ...key, CP_REKOR_URL: 'http://rekor.example' }, /CP_REKOR_URL.*is not allowed/],
    [{ ...key, CP_REKOR_URL: 'https://user@rekor.example' }, /CP_REKOR_URL.*is not allowed/],
    [{}, /CP_REKOR_PUBLIC_KEY_FILE: is needed with CP_REKOR_URL/],
    [{ CP_REKOR_PUBLIC_KEY_FILE: join(dir, 'absent.pem') }, /CP_REKOR_PUBLIC_KEY_FILE/],
    [{ ...key, CP_REKOR_INTERVAL: '1s' }, /CP_REKOR_INTERVAL/],
  ];
  for (const [settings, err] of wrong) t.match(await gw(['control-plane', 'start'], { env: { ...env, ...settings } }), { code: 2, err });
  const broken = { CP_REKOR_PUBLIC_KEY_FILE: join(dir, 'broken.pem') };
  t.match(await gw(['control-plane', 'start'], { env: { ...env, ...broken } }), {
    code: 1,
    err: /CP_REKOR_PUBLIC_KEY_FILE: .*broken\.pem cannot be used/,
  });
});
