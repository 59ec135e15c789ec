import t, { type Test } from 'tap';
import { type Logger, silentLogger } from '../../src/base/lib/log.ts';
import type { AddonEntry, PublicKey, SignedBundle } from '../../src/control-plane/proto/messages.ts';
import { BundleRefused } from '../../src/link/bundle-signature.ts';
import type { Channel } from '../../src/link/link-ports.ts';
import { RemoteKeys } from '../../src/link/remote-keys.ts';
import { RemotePolicy } from '../../src/link/remote-policy.ts';
import { PolicyService } from '../../src/services/policy/policies.ts';
import { commitAlone } from '../../src/services/registers/commit.ts';
import type { Effect, Store } from '../../src/storage/contract/store.ts';
import { bundleOf } from '../support/governed.ts';
import { type Place, somePlace } from '../support/policies-place.ts';
import { playedKey, signedBundle } from '../support/signed-bundles.ts';

const KEY = playedKey('k1');
const ALLOW = bundleOf('  identity:\n    - {id: all, effect: {decision: allow}}\n');
const yaml = (version: string): string => ALLOW.replace(/version: .*/, `version: "${version}"`);

/** What the control plane has, as a test sets it; `asked` are the calls that came. */
class PlayedChannel implements Channel {
  bundle: SignedBundle | null = null;
  keys: readonly PublicKey[] = [KEY.listed];
  addons: readonly AddonEntry[] = [];
  readonly asked: string[] = [];

  call: Channel['call'] = (name) => {
    this.asked.push(name);
    const answers: Readonly<Record<string, unknown>> = {
      FetchBundle: { org: null, bundle: this.bundle },
      FetchKeys: { org: null, version: `keys-${this.keys.length}`, keys: this.keys, ca_certificates: [] },
      FetchAddons: { org: null, version: '1', addons: this.addons },
    };
    return name in answers ? Promise.resolve(answers[name] as never) : Promise.reject(new Error(name));
  };

  updates: Channel['updates'] = () => {
    throw new TypeError('nobody streams here');
  };
}

interface Started {
  readonly policies: PolicyService;
  readonly remote: RemotePolicy;
  readonly keys: RemoteKeys;
}

async function start(place: Place, { store = place.store, log = silentLogger }: { store?: Store; log?: Logger } = {}): Promise<Started> {
  const options = { ...place.options, store, log, dir: '/nowhere/policies', managedRemotely: true };
  const policies = await PolicyService.open(options);
  const keys = await RemoteKeys.open(store);
  return { policies, keys, remote: await RemotePolicy.open({ ...options, policies, keys, orgId: 'acme' }) };
}

function faultsOf({ options }: Place): string[] {
  const faults: string[] = [];
  options.events.subscribe(['bundleRejected'], (fault) => faults.push(fault));
  return faults;
}

async function refused(t: Test, fetching: Promise<void>, fault: string): Promise<void> {
  const error: unknown = await fetching.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  t.ok(error instanceof BundleRefused, fault);
  t.match(error, { fault });
}

t.test('what was never fetched denies everything, and no folder is read', async (t) => {
  const { policies, remote } = await start(await somePlace(t));
  t.match(policies.current('acme'), { bundle_id: 'no_bundle', source: 'control_plane' });
  t.equal(remote.version(), '');
  t.match(remote.warnings(), [{ code: 'no_bundle' }]);
  const channel = new PlayedChannel();
  await remote.fetch(channel);
  t.equal(policies.current().bundle_id, 'no_bundle', 'an org without a bundle changes nothing');
});

t.test('an overlay or a preset of the org opens nothing while there is no bundle, and counts as soon as there is one', async (t) => {
  const place = await somePlace(t);
  const free = await place.open().catch(() => undefined);
  t.equal(free, undefined, 'the folder of this place is empty');
  const { policies, remote } = await start(place);
  const overlay = bundleOf('  identity:\n    - {id: no_bundle, effect: {decision: allow}}\n    - {id: own, effect: {decision: allow}}\n');
  await policies.putOverlay({ org_id: 'acme', level: 'org' }, overlay, () => undefined);
  t.equal(policies.current('acme').bundle_id, 'no_bundle');
  const rulesOf = (): readonly string[] => policies.current('acme').policy.layers.flatMap(({ rules }) => rules.map(({ id }) => id));
  t.same(rulesOf(), ['no_bundle']);
  t.equal(policies.current('acme').policy.layers.flatMap(({ rules }) => rules)[0]?.decision, 'deny');
  const channel = new PlayedChannel();
  channel.bundle = signedBundle(KEY, ALLOW, 1);
  await remote.fetch(channel);
  t.ok(rulesOf().includes('own'));
  t.ok(rulesOf().includes('all'));
});

t.test('a bundle whose signature holds comes into force, is kept, and is in force again from the start', async (t) => {
  const place = await somePlace(t);
  const channel = new PlayedChannel();
  const first = await start(place);
  channel.bundle = signedBundle(KEY, yaml('7'), 3);
  await first.remote.fetch(channel);
  t.same(channel.asked, ['FetchBundle', 'FetchKeys'], 'a key that is not known is asked for');
  t.match(first.policies.current('acme'), { version: '7', source: 'control_plane' });
  t.equal(first.remote.version(), 'v+3');
  t.same(first.remote.warnings(), []);
  await first.remote.fetch(channel);
  t.same(channel.asked.slice(2), ['FetchBundle'], 'the same once more does nothing');
  place.clock.advance(60_000);
  const loadedAt = first.policies.current().loaded_at;
  const second = await start(place);
  t.match(second.policies.current('acme'), { version: '7', loaded_at: loadedAt });
  t.equal(second.remote.version(), 'v+3');
  t.equal(second.keys.version(), 'keys-1');
});

// Holds: bundles-are-signed
t.test('what may not be used changes nothing, is counted and told', async (t) => {
  const place = await somePlace(t);
  const faults = faultsOf(place);
  const lines: unknown[] = [];
  const log = { ...silentLogger, error: (...line: unknown[]) => void lines.push(line) } as Logger;
  const { policies, remote } = await start(place, { log });
  const channel = new PlayedChannel();
  const stranger = playedKey('k2');
  const ledger = playedKey('k3', 'ledger');
  channel.keys = [KEY.listed, ledger.listed];
  channel.bundle = signedBundle(KEY, yaml('1'), 5);
  await remote.fetch(channel);
  const good = signedBundle(KEY, yaml('2'), 6);
  const flipped = Buffer.from(good.signature);
  flipped[0] = (flipped[0] ?? 0) ^ 1;
  const cases: readonly (readonly [string, SignedBundle])[] = [
    ['bad_signature', { ...good, signature: flipped }],
    ['bad_signature', { ...good, signature: new Uint8Array() }],
    ['bad_signature', { ...good, bundle_yaml: good.bundle_yaml.subarray(0, -1) }],
    ['bad_signature', { ...good, version: 'another' }],
    ['bad_signature', { ...good, sequence: '7' }],
    ['bad_signature', signedBundle({ ...stranger, kid: 'k1' }, yaml('2'), 6)],
    ['unknown_key', signedBundle(stranger, yaml('2'), 6)],
    ['unknown_key', signedBundle(ledger, yaml('2'), 6)],
    ['other_org', signedBundle(KEY, yaml('2'), 6, { org: 'globex' })],
    ['rollback', signedBundle(KEY, yaml('2'), 4)],
    ['sequence_reused', signedBundle(KEY, yaml('2'), 5)],
    ['malformed', { ...good, sequence: '0' }],
    ['malformed', { ...good, sequence: '18446744073709551615' }],
    ['malformed', { ...good, version: '' }],
    ['malformed', { ...good, bundle_yaml: new Uint8Array() }],
    ['malformed', signedBundle(KEY, Buffer.from([0xff, 0xfe, 0x20]), 6)],
    ['invalid_policy', signedBundle(KEY, 'schema: gw.policy_bundle.v0\n', 6)],
    ['invalid_policy', signedBundle(KEY, `${ALLOW}files: [other.yaml]\nnothing: 1\n`, 6)],
  ];
  for (const [fault, bundle] of cases) {
    channel.bundle = bundle;
    await refused(t, remote.fetch(channel), fault);
    t.equal(policies.current('acme').version, '1', fault);
    t.equal(remote.version(), 'v+5');
    t.match(remote.warnings(), [{ code: 'policy_bundle_rejected', message: new RegExp(fault) }]);
  }
  t.same(
    faults,
    cases.map(([fault]) => fault),
  );
  t.notMatch(JSON.stringify(lines), 'decision: allow');
  const count = lines.length;
  await refused(t, remote.fetch(channel), 'invalid_policy');
  t.equal(lines.length, count, 'the same refusal is one line of the log');
  channel.bundle = good;
  await remote.fetch(channel);
  t.equal(policies.current('acme').version, '2');
  t.same(remote.warnings(), []);
});

// Holds: bundles-are-signed
t.test('the kept bundle goes through the same before a start uses it', async (t) => {
  const place = await somePlace(t);
  const channel = new PlayedChannel();
  channel.bundle = signedBundle(KEY, yaml('1'), 5);
  await (await start(place)).remote.fetch(channel);
  const kept = (await place.store.get('remote_bundle', 'acme')) as Record<string, string>;
  const faults = faultsOf(place);
  const put = (value: unknown): Promise<void> => place.store.commit(undefined, [{ op: 'put', space: 'remote_bundle', key: 'acme', value }]);
  const older = signedBundle(KEY, yaml('0'), 4);
  const asKept = ({ bundle_yaml: bytes, signature, ...rest }: SignedBundle) => ({
    ...kept,
    ...rest,
    bundle_yaml: Buffer.from(bytes).toString('base64'),
    signature: Buffer.from(signature).toString('base64'),
  });
  const cases: readonly (readonly [string, unknown])[] = [
    ['bad_signature', { ...kept, bundle_yaml: Buffer.from(yaml('9')).toString('base64') }],
    ['bad_signature', { ...kept, bundle_yaml: (kept['bundle_yaml'] ?? '').slice(0, -8) }],
    ['rollback', asKept(older)],
    ['other_org', asKept(signedBundle(KEY, yaml('1'), 6, { org: 'globex' }))],
    ['unknown_key', asKept(signedBundle(playedKey('k9'), yaml('1'), 6))],
    ['malformed', 'not at all'],
  ];
  for (const [fault, value] of cases) {
    await put(value);
    const { policies, remote } = await start(place);
    t.equal(policies.current('acme').bundle_id, 'no_bundle', fault);
    t.equal(remote.version(), '', 'so it is fetched anew');
    t.match(remote.warnings(), [{ code: 'policy_bundle_rejected' }, { code: 'no_bundle' }]);
    await remote.fetch(channel);
    t.equal(policies.current('acme').version, '1');
    t.same(remote.warnings(), []);
  }
  t.same(
    faults,
    cases.map(([fault]) => fault),
  );
});

t.test(
  'a bundle that cannot be stored is not in force; one that was stored when the gateway died is, from the next start on',
  async (t) => {
    const place = await somePlace(t);
    let isDead = false;
    let fails = true;
    const commit = async (record: undefined, effects: readonly Effect[]): Promise<void> => {
      const isBundle = effects.some(({ space }) => space === 'remote_bundle');
      if (isBundle && fails) throw Object.assign(new Error('the disk is full'), { code: 'record_store_unavailable' });
      await place.store.commit(record, effects);
      // Killed behind the commit and before the swap.
      if (isBundle && isDead) await new Promise(() => undefined);
    };
    const store = new Proxy(place.store, {
      get: (target, name) => {
        const member: unknown = name === 'commit' ? commit : Reflect.get(target, name, target);
        return typeof member === 'function' ? (member.bind(target) as unknown) : member;
      },
    });
    const channel = new PlayedChannel();
    const faults = faultsOf(place);
    channel.bundle = signedBundle(KEY, yaml('1'), 1);
    const one = await start(place, { store });
    await t.rejects(one.remote.fetch(channel), { message: 'the disk is full' });
    t.same([one.policies.current().bundle_id, one.remote.version(), faults.length], ['no_bundle', '', 0]);
    fails = false;
    await one.remote.fetch(channel);
    t.equal(one.policies.current().version, '1');
    isDead = true;
    channel.bundle = signedBundle(KEY, yaml('2'), 2);
    void one.remote.fetch(channel);
    while (((await place.store.get('remote_bundle_highest', 'acme')) as { sequence: number }).sequence !== 2)
      await new Promise(setImmediate);
    t.equal(one.policies.current().version, '1');
    const two = await start(place);
    t.equal(two.policies.current('acme').version, '2');
    channel.bundle = signedBundle(KEY, yaml('1'), 1);
    await refused(t, two.remote.fetch(channel), 'rollback');
  },
);

t.test('a cleared cache leaves what runs in force and the sequence remembered', async (t) => {
  const place = await somePlace(t);
  const channel = new PlayedChannel();
  channel.bundle = signedBundle(KEY, yaml('1'), 5);
  const one = await start(place);
  await one.remote.fetch(channel);
  await one.remote.clear(commitAlone(place.store));
  t.equal(one.policies.current('acme').version, '1');
  const two = await start(place);
  t.equal(two.policies.current('acme').bundle_id, 'no_bundle');
  t.equal(two.remote.version(), '');
  channel.bundle = signedBundle(KEY, yaml('0'), 4);
  await refused(t, two.remote.fetch(channel), 'rollback');
  t.equal(two.policies.current('acme').bundle_id, 'no_bundle');
  channel.bundle = signedBundle(KEY, yaml('1'), 5);
  await two.remote.fetch(channel);
  t.equal(two.policies.current('acme').version, '1');
});

t.test('keys that cannot be read leave those that there were', async (t) => {
  const place = await somePlace(t);
  const { keys } = await start(place);
  const channel = new PlayedChannel();
  await keys.fetch(channel);
  channel.keys = [{ ...KEY.listed, public_key: new Uint8Array(31) }];
  await t.rejects(keys.fetch(channel));
  channel.keys = [KEY.listed, KEY.listed];
  await t.rejects(keys.fetch(channel));
  t.equal(keys.version(), 'keys-1');
  t.ok(keys.find('bundle', 'k1'));
  t.equal(keys.find('ledger', 'k1'), undefined);
});
