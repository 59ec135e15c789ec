// Keys of roots and bundles that follow one another (decision 13.18): nobody meets one that he does not know, and what
// a retired key signs counts no more.
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { silentLogger } from '../../src/base/lib/log.ts';
import { sha256Hex } from '../../src/base/lib/sha256.ts';
import { type KeptSigningKey, openSigningKey } from '../../src/control-plane/pki/kept-signing-key.ts';
import { KeyFiles } from '../../src/control-plane/pki/key-files.ts';
import { SigningKeys } from '../../src/control-plane/state/signing-keys.ts';
import { followChain, nothingSeen } from '../../src/ledger/chain-walk.ts';
import { endorse } from '../../src/ledger/key-endorsement.ts';
import { type ListedKey, listedKey, readKeys } from '../../src/ledger/ledger-answers.ts';
import { type MerkleRoot, signRoot } from '../../src/ledger/merkle-root.ts';
import { believedWith, strangersAmong, watchFrom } from '../../src/ledger/watched-chain.ts';
import type { Commit } from '../../src/services/registers/commit.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';
import { NOTHING_YET, PROTOCOL, type RunningControlPlane, runControlPlane, TIMEOUT_MS } from '../support/control-plane.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { PLANE_BUNDLE } from '../support/running-control-plane.ts';
import { tempDir } from '../support/temp-dir.ts';

const HOUR_MS = 3_600_000;
type Clock = ReturnType<typeof fakeClock>;

async function until(what: () => boolean | Promise<boolean>, step: () => void = () => undefined): Promise<void> {
  while (!(await what())) {
    step();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Hands a hash in and waits for the root over it. */
async function oneMoreRoot({ plane }: RunningControlPlane, clock: Clock, name: string): Promise<MerkleRoot> {
  const before = (await plane.state.ledger.roots('acme', 0, 500)).length;
  await plane.state.registers.ledgers.submit('acme', [Buffer.from(sha256Hex(name), 'hex')]);
  const roots = async () => plane.state.ledger.roots('acme', before, 1);
  await until(
    async () => (await roots()).length > 0,
    () => clock.advance(1_000),
  );
  return (await roots())[0] as MerkleRoot;
}

function statesOf({ plane }: RunningControlPlane, use: ListedKey['use']): readonly (readonly [kid: string, state: string])[] {
  return plane.state
    .keys()
    .filter((key) => key.use === use)
    .map(({ kid, state }) => [kid, state]);
}

async function withOrg(t: Test, clock: Clock, dataDir = tempDir(t)): Promise<RunningControlPlane> {
  const running = await runControlPlane(t, { clock }, { dataDir });
  if (running.plane.state.registers.register.find('acme') === undefined) await running.plane.state.orgs.put('acme', {}, running.commit);
  return running;
}

// Holds: roots-by-the-key-of-their-time
t.test('the ledger key is replaced at its time, former keys stay listed, and one that signs later is refused', async (t) => {
  const clock = fakeClock(Date.UTC(2026, 10, 24, 12));
  const running = await withOrg(t, clock);
  const { plane, commit, dataDir } = running;
  const { rotations } = plane.state;
  const retired = await openSigningKey(join(dataDir, 'ledger-key.pem'), 'ledger');
  const first = await oneMoreRoot(running, clock, 'one');
  const switchAt = clock.now() + 2 * HOUR_MS;
  const { keys } = await rotations.rotate('ledger', switchAt, commit);
  t.match(keys, [
    { state: 'current' },
    { state: 'next', not_before: new Date(switchAt).toISOString(), endorsed_by: { kid: first.sig.kid } },
  ]);
  const next = keys[1]?.kid ?? '';
  await t.rejects(rotations.rotate('ledger', switchAt, commit), { code: 'conflict' }, 'one at a time');
  const second = await oneMoreRoot(running, clock, 'two');
  t.equal(second.sig.kid, first.sig.kid, 'the next key does not sign before its time');
  clock.advance(switchAt - clock.now());
  const third = await oneMoreRoot(running, clock, 'three');
  t.equal(third.sig.kid, next);
  t.ok(Date.parse(third.closed_at) >= switchAt);
  t.same(statesOf(running, 'ledger'), [
    [next, 'current'],
    [first.sig.kid, 'former'],
  ]);
  clock.set(switchAt - HOUR_MS);
  const fourth = await oneMoreRoot(running, clock, 'four');
  t.equal(fourth.sig.kid, next, 'a clock that was set back brings no former key back');
  t.ok(Date.parse(fourth.closed_at) >= switchAt, 'and its roots bear a time at which it signs');
  await t.rejects(rotations.cancel('ledger', commit), { code: 'conflict' });
  await t.rejects(rotations.finish('ledger', true, commit), { code: 'conflict', message: /stay listed/ });
  const listed = readKeys(plane.state.keys(), 'ledger');
  const seen = followChain(nothingSeen('acme'), [first, second, third, fourth], listed);
  const { sig: _sig, ...unsigned } = {
    ...fourth,
    sequence: 5,
    batch_id: 'acme/5',
    prev_root_hash: seen.digest,
    tree_size: (fourth.tree_size ?? 0) + 1,
  };
  const late = signRoot(unsigned, retired.kid, retired.key);
  t.throws(() => followChain(seen, [late], listed), { message: /^root 5: it was closed at .*, and its key \(.*\) was retired at / });
  const backdated = signRoot({ ...unsigned, closed_at: second.closed_at }, retired.kid, retired.key);
  t.throws(() => followChain(seen, [backdated], listed), {
    message: /^root 5: its key .* was retired at .*, and a root before it is signed by a later key/,
  });
  const trail = (await plane.state.audit.page({}, { limit: 20, after: undefined })).items.map(({ operation, object }) => [
    operation,
    object,
  ]);
  t.match(
    trail,
    [
      ['keys.switch', 'ledger'],
      ['test', 'ledger'],
    ],
    'what happens by the clock is in the trail too',
  );
});

t.test('who believes one key believes those that follow it, and nobody else', async (t) => {
  const clock = fakeClock(Date.UTC(2026, 10, 24, 12));
  const running = await withOrg(t, clock);
  const { plane, commit } = running;
  const ledgerKeys = (): readonly ListedKey[] => plane.state.keys().filter(({ use }) => use === 'ledger');
  const remembered = ledgerKeys();
  for (const name of ['one', 'two']) {
    await plane.state.rotations.rotate('ledger', clock.now(), commit);
    await oneMoreRoot(running, clock, name);
    clock.advance(HOUR_MS);
  }
  const believed = believedWith(remembered, ledgerKeys());
  t.equal(believed.length, 3, 'over two that were missed');
  t.ok(believed[0]?.not_after, 'and knows that the first one has ended');
  followChain(nothingSeen('acme'), await plane.state.ledger.roots('acme', 0, 9), readKeys(believed, 'ledger'));
  const [newest, ...others] = ledgerKeys();
  const stranger = { ...newest, kid: 'ledger-stranger' } as ListedKey;
  t.equal(believedWith(remembered, [stranger, ...others]).length, 2, 'an endorsement is of one key and its name');
  const later = { ...newest, not_before: '2030-01-01T00:00:00.000Z' } as ListedKey;
  t.equal(believedWith(remembered, [later, ...others]).length, 2, 'and of one time');
  const [{ not_after: end } = {}] = believed;
  const longer = ledgerKeys().map((key) => (key.kid === remembered[0]?.kid ? { ...key, not_after: '2030-01-01T00:00:00.000Z' } : key));
  t.equal(believedWith(believed, longer)[0]?.not_after, end, 'what has ended does not end later');
});

t.test('a next key that was given up is gone, and another can be made', async (t) => {
  const clock = fakeClock(Date.UTC(2026, 10, 24, 12));
  const running = await withOrg(t, clock);
  const { plane, commit, dataDir } = running;
  const before = plane.state.keys();
  await t.rejects(plane.state.rotations.cancel('ledger', commit), { code: 'conflict' });
  const { keys } = await plane.state.rotations.rotate('ledger', clock.now() + HOUR_MS, commit);
  t.match((await plane.state.rotations.cancel('ledger', commit)).switch_at, null);
  t.same(plane.state.keys(), before);
  t.notOk(existsSync(join(dataDir, 'ledger-key.next.pem')));
  clock.advance(2 * HOUR_MS);
  t.equal((await oneMoreRoot(running, clock, 'one')).sig.kid, before.find(({ use }) => use === 'ledger')?.kid);
  t.not((await plane.state.rotations.rotate('ledger', clock.now() + HOUR_MS, commit)).keys[1]?.kid, keys[1]?.kid);
});

// Its TLS is of the real clock.
t.test('bundles and overlays are signed anew, and gateways that have not heard of it are named', async (t) => {
  const clock = fakeClock(Date.now());
  const running = await withOrg(t, clock);
  const { plane, commit, enrol } = running;
  const { client } = await enrol('acme', 'node-1');
  await plane.state.bundles.put('acme', PLANE_BUNDLE, commit);
  await plane.state.overlays.put('acme', 'org', 'schema: gw.policy_bundle.v1\ninline_rules: {}\n', commit);
  const checkIn = async (kid: string) =>
    client.call(
      PROTOCOL.controlPlane,
      'CheckIn',
      {
        versions: { ...NOTHING_YET, ...plane.state.presentVersions('acme') },
        gateway_version: '1',
        policy_sequence: '1',
        policy_kid: kid,
      },
      TIMEOUT_MS,
    );
  const old = (await plane.state.bundles.get('acme'))?.kid ?? '';
  await checkIn(old);
  t.equal(plane.counts.unawareNodes, 0);
  const rotation = await plane.state.rotations.rotate('bundle', clock.now() + HOUR_MS, commit);
  t.match(rotation, { unaware_nodes: 1, nodes: [{ org_id: 'acme', node_id: 'node-1' }] });
  const { keys } = await client.call(PROTOCOL.controlPlane, 'FetchKeys', {}, TIMEOUT_MS);
  t.match(
    keys.filter(({ use }) => use === 'bundle').map(({ not_before: from }) => from),
    ['', rotation.switch_at],
    'a gateway learns of the next key before it signs',
  );
  await checkIn(old);
  t.match(await plane.state.rotations.status('bundle'), { unaware_nodes: 0 });
  clock.advance(HOUR_MS);
  const next = rotation.keys[1]?.kid;
  await until(
    async () => (await plane.state.overlays.list('acme'))[0]?.kid === next,
    () => clock.advance(1_000),
  );
  const bundle = await plane.state.bundles.get('acme');
  t.match(bundle, { kid: next, sequence: 2, version: '1+2', bundle_yaml: PLANE_BUNDLE });
  await t.rejects(plane.state.rotations.finish('bundle', false, commit), { code: 'conflict', message: /node-1 of acme/ });
  await checkIn(next ?? '');
  t.equal((await plane.state.rotations.finish('bundle', false, commit)).keys.length, 1);
  await t.rejects(plane.state.rotations.finish('bundle', false, commit), { code: 'conflict', message: /no former/ });
});

t.test('an end of the process between any two steps leaves a folder that starts, with one key that signs', async (t) => {
  const clock = fakeClock(Date.UTC(2026, 10, 24, 12));
  const dataDir = tempDir(t);
  const [file, next] = [join(dataDir, 'ledger-key.pem'), join(dataDir, 'ledger-key.next.pem')];
  let running = await withOrg(t, clock, dataDir);
  const again = async () => {
    await running.plane.stop();
    running = await withOrg(t, clock, dataDir);
    return running;
  };
  const kid = () => statesOf(running, 'ledger')[0]?.[0];
  const first = kid();
  // A next key was made, and not stored that there is one.
  await running.plane.stop();
  await openSigningKey(next, 'ledger');
  running = await withOrg(t, clock, dataDir);
  t.same(statesOf(running, 'ledger'), [[first, 'current']]);
  t.notOk(existsSync(next), 'a key of which nobody has heard is not left lying about');
  await running.plane.state.rotations.rotate('ledger', clock.now() + HOUR_MS, running.commit);
  const second = statesOf(running, 'ledger')[1]?.[0];
  t.same(statesOf(await again(), 'ledger'), [
    [first, 'current'],
    [second, 'next'],
  ]);
  // The switch was stored, and the file not renamed.
  const old = readFileSync(file);
  clock.advance(HOUR_MS);
  await oneMoreRoot(running, clock, 'one');
  await running.plane.stop();
  renameSync(file, next);
  writeFileSync(file, old, { mode: 0o600 });
  running = await withOrg(t, clock, dataDir);
  t.equal(kid(), second);
  t.notOk(existsSync(next));
  t.equal((await oneMoreRoot(running, clock, 'two')).sig.kid, second);
  // The time of the switch passed while nothing ran.
  await running.plane.state.rotations.rotate('ledger', clock.now() + HOUR_MS, running.commit);
  const third = statesOf(running, 'ledger')[1]?.[0];
  await running.plane.stop();
  clock.advance(2 * HOUR_MS);
  running = await withOrg(t, clock, dataDir);
  t.same(
    statesOf(running, 'ledger').map(([name]) => name),
    [third, second, first],
  );
  // The next key was lost before its turn.
  await running.plane.state.rotations.rotate('ledger', clock.now() + HOUR_MS, running.commit);
  await running.plane.stop();
  rmSync(next);
  running = await withOrg(t, clock, dataDir);
  t.same(
    statesOf(running, 'ledger').map(([, state]) => state),
    ['current', 'former', 'former'],
  );
  // The key that signs is another one than the store knows.
  await running.plane.stop();
  writeFileSync(file, old);
  await t.rejects(withOrg(t, clock, dataDir), { message: /ledger-key\.pem is not the key that counts \(.*\): restore it from the backup/ });
});

/** The signing keys of the ledger alone, whose commits and files the test holds up. */
async function heldKeys(t: Test, clock: Clock, latestSigned = () => Promise.resolve(Number.NEGATIVE_INFINITY)) {
  const dir = tempDir(t);
  const store = await openEmbeddedStore({ dir: join(dir, 'store'), fsync: 'off', clock, log: silentLogger });
  t.teardown(() => store.close());
  const kept = new KeyFiles(join(dir, 'ledger-key.pem'), (file) => openSigningKey(file, 'ledger'));
  const hold: Record<'commit' | 'present', () => Promise<void>> = { commit: nothing, present: nothing };
  const files = {
    present: async (kid: string | undefined) => {
      await hold.present();
      return kept.present(kid);
    },
    next: () => kept.next(),
    makeNext: () => kept.makeNext(),
    dropNext: () => kept.dropNext(),
  } as unknown as KeyFiles<KeptSigningKey>;
  const commit: Commit = async (_object, effects, expect) => {
    await store.commit(undefined, effects, expect);
    await hold.commit();
  };
  const keys = await SigningKeys.open({
    use: 'ledger',
    store,
    files,
    audit: { commitFor: () => commit },
    clock,
    log: silentLogger,
    latestSigned,
  });
  t.teardown(() => keys.stop());
  return { keys, hold, commit };
}

async function nothing(): Promise<void> {}

/** Holds what calls it until it is told to go on. */
function gate(): { readonly entered: Promise<void>; readonly held: () => Promise<void>; readonly open: () => void } {
  let enter = (): void => undefined;
  let open = (): void => undefined;
  const entered = new Promise<void>((resolve) => {
    enter = resolve;
  });
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return {
    entered,
    held: () => {
      enter();
      return opened;
    },
    open,
  };
}

/** That who signs does so within the window of its key, as everybody will judge it. */
function fits(keys: SigningKeys, { signer, at }: { readonly signer: { readonly kid: string }; readonly at: number }): boolean {
  const { not_before: from, not_after: end } = keys.listed().find(({ kid }) => kid === signer.kid) ?? {};
  return (from === undefined || at >= Date.parse(from)) && (end === undefined || at < Date.parse(end));
}

t.test('who signs while keys are changed never has a key that has ended by then', async (t) => {
  for (const step of ['commit', 'present'] as const) {
    const clock = fakeClock();
    const { keys, hold, commit } = await heldKeys(t, clock);
    await keys.rotate(clock.now() + HOUR_MS, commit);
    clock.advance(HOUR_MS);
    const { entered, held, open } = gate();
    hold[step] = held;
    const first = keys.signerAt(clock.now());
    await entered;
    const second = keys.signerAt(clock.now());
    open();
    for (const signed of [await first, await second]) t.ok(fits(keys, signed), `held at ${step}`);
  }
});

t.test('a key that could not be brought in after its switch is brought in by the next who signs', async (t) => {
  const clock = fakeClock();
  const { keys, hold, commit } = await heldKeys(t, clock);
  await keys.rotate(clock.now() + HOUR_MS, commit);
  clock.advance(HOUR_MS);
  hold.present = () => Promise.reject(new Error('the disk'));
  await t.rejects(keys.signerAt(clock.now()), { message: 'the disk' });
  await t.rejects(keys.signerAt(clock.now()), { message: 'the disk' }, 'the key before it does not sign in its place');
  hold.present = nothing;
  t.equal((await keys.signerAt(clock.now())).signer.kid, keys.kid);
});

t.test('a switch at once is behind all that was signed, in the same millisecond and with a clock that was ahead', async (t) => {
  const clock = fakeClock();
  const ahead = clock.now() + 24 * HOUR_MS;
  const { keys, hold, commit } = await heldKeys(t, clock, () => Promise.resolve(ahead));
  clock.set(ahead + HOUR_MS);
  const before = await keys.signerAt(clock.now());
  clock.set(ahead - 24 * HOUR_MS);
  const { entered, held, open } = gate();
  hold.commit = held;
  const rotated = keys.rotate(clock.now(), commit);
  await entered;
  const during = keys.signerAt(clock.now());
  open();
  await rotated;
  const after = await keys.signerAt(clock.now());
  t.not(after.signer.kid, before.signer.kid, 'the next key signs at once');
  for (const signed of [before, await during, after]) t.ok(fits(keys, signed));
  const [{ not_before: from } = {}] = keys.listed();
  t.equal(Date.parse(from ?? ''), ahead + HOUR_MS + 1);
});

t.test('what was signed before a start counts too, of each org the latest', async (t) => {
  const clock = fakeClock(Date.UTC(2026, 10, 24, 12));
  const dataDir = tempDir(t);
  let running = await withOrg(t, clock, dataDir);
  clock.advance(24 * HOUR_MS);
  await oneMoreRoot(running, clock, 'ahead');
  clock.set(Date.UTC(2026, 10, 24, 12));
  await oneMoreRoot(running, clock, 'set back');
  await running.plane.stop();
  running = await withOrg(t, clock, dataDir);
  const remembered = running.plane.state.keys().filter(({ use }) => use === 'ledger');
  await running.plane.state.rotations.rotate('ledger', clock.now(), running.commit);
  const last = await oneMoreRoot(running, clock, 'after');
  t.not(last.sig.kid, remembered[0]?.kid);
  const roots = await running.plane.state.ledger.roots('acme', 0, 9);
  followChain(nothingSeen('acme'), roots, readKeys(running.plane.state.keys(), 'ledger'));
  t.equal(roots.length, 3);
});

t.test('a retired key introduces nobody, and a next key that was given up is not believed', async (t) => {
  const [first, second, third] = [ledgerKey(), ledgerKey(), ledgerKey()];
  const [early, later] = ['2026-11-24T12:00:00.000Z', '2026-12-24T12:00:00.000Z'];
  const follows = (key: ListedKey, by: { readonly kid: string; readonly key: KeyObject }, from: string): ListedKey => {
    const next = { ...key, not_before: from };
    return { ...next, endorsed_by: endorse(next, by) };
  };
  const kids = (keys: readonly ListedKey[]) => keys.map(({ kid }) => kid);
  const ended = { ...first.listed, not_after: early };
  const [right, forged] = [follows(second.listed, first, early), follows(third.listed, first, early)];
  t.same(kids(believedWith([first.listed], [right, ended])), [first.kid, second.kid]);
  t.same(kids(believedWith([ended, right], [forged, right, ended])), [first.kid, second.kid], 'a key has one successor');
  t.same(kids(believedWith([first.listed], [forged, right, ended])), [first.kid], 'of two nobody knows which');
  const given = [ended, { ...second.listed, not_before: early }];
  t.same(kids(believedWith(given, [forged, ...given])), [first.kid, second.kid], 'also of keys that somebody has brought');
  t.same(kids(believedWith([ended], [forged, ended], new Set([first.kid]))), [first.kid], 'nor after an end that he knows of');
  const sooner = follows(third.listed, first, '2026-11-23T12:00:00.000Z');
  const moved = { ...first.listed, not_after: '2026-11-23T12:00:00.000Z' };
  t.same(kids(believedWith([ended, right], [sooner, right, moved])), [first.kid, second.kid], 'at no other end');
  const next = follows(second.listed, first, later);
  for (const keys of [[first.listed], [first.listed, next]])
    t.same(kids(believedWith(keys, [first.listed, next])), [first.kid], 'before its turn it may be given up');
  t.same(strangersAmong(watchFrom('acme', [first.listed]), [first.listed, next]), [], 'and is no stranger');
  t.same(strangersAmong(watchFrom('acme', [ended]), [ended, forged]), [third.kid]);
});

function ledgerKey(): { readonly kid: string; readonly key: KeyObject; readonly listed: ListedKey } {
  const { privateKey: key, publicKey } = generateKeyPairSync('ed25519');
  const kid = `ledger-${sha256Hex(publicKey.export({ type: 'spki', format: 'der' })).slice(0, 16)}`;
  return { kid, key, listed: listedKey(kid, 'ledger', publicKey) };
}
