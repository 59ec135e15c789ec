import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { silentLogger } from '../../src/base/lib/log.ts';
import { OrgLedger, type OrgLedgerOptions, signedLeaves } from '../../src/control-plane/ledger/org-ledger.ts';
import { MOST_OPEN_LEDGERS, OrgLedgers } from '../../src/control-plane/state/org-ledgers.ts';
import { followChain, nothingSeen } from '../../src/ledger/chain-walk.ts';
import { checkConsistency, type TreeHead, treeHeadOf } from '../../src/ledger/consistency-proof.ts';
import { checkInclusion, recordLeaf } from '../../src/ledger/inclusion-proof.ts';
import { listedKey, readKeys } from '../../src/ledger/ledger-answers.ts';
import { checkSignature, type MerkleRoot } from '../../src/ledger/merkle-root.ts';
import { treeRoot } from '../../src/ledger/merkle-tree.ts';
import type { LeafPlace } from '../../src/storage/contract/leaves.ts';
import { leafFiles } from '../../src/storage/drivers/leaf-files.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';
import { LeafLog } from '../../src/storage/leaves/leaf-log.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { oneSigner } from '../support/one-signer.ts';
import { type HasTeardown, tempDir } from '../support/temp-dir.ts';

const { privateKey, publicKey } = generateKeyPairSync('ed25519');
const KEYS = readKeys([listedKey('ledger-1', 'ledger', publicKey)], 'ledger');
const clock = fakeClock(Date.UTC(2026, 10, 24, 12));

async function place(t: HasTeardown) {
  const dir = tempDir(t);
  const store = await openEmbeddedStore({ dir: join(dir, 'store'), fsync: 'off', clock, log: silentLogger });
  t.teardown(() => store.close());
  return { dir, store };
}

async function ledgerOf(
  t: HasTeardown,
  { dir, store }: { dir: string; store: OrgLedgerOptions['store'] },
  orgId = 'acme',
): Promise<OrgLedger> {
  const leaves = await LeafLog.open(join(dir, `${orgId}.leaves`), await signedLeaves(store, orgId));
  const ledger = await OrgLedger.open({ orgId, store, leaves, signers: oneSigner('ledger-1', privateKey), clock, log: silentLogger });
  t.teardown(() => ledger.close());
  return ledger;
}

/** Lets what is under way end: a batch is several turns of file and store. */
async function until(what: () => boolean): Promise<void> {
  while (!what()) await new Promise((resolve) => setImmediate(resolve));
}

function hashes(count: number): Buffer[] {
  return Array.from({ length: count }, () => randomBytes(32));
}

t.test('a batch is closed a second after its first hash, or when it is full', async (t) => {
  const ledger = await ledgerOf(t, await place(t));
  const given = hashes(3);
  await ledger.submit(given);
  t.equal(ledger.sequence, 0);
  t.same(await ledger.inclusion(given[0] as Buffer), { status: 'pending_inclusion' });
  t.same(await ledger.inclusion(randomBytes(32)), { status: 'unknown' });
  clock.advance(999);
  t.equal(ledger.sequence, 0);
  clock.advance(1);
  await until(() => ledger.sequence === 1);
  t.equal(ledger.pending, 0);
  await ledger.submit(hashes(256));
  await until(() => ledger.sequence === 2);
  await ledger.submit(hashes(600));
  await until(() => ledger.sequence === 4);
  t.equal(ledger.pending, 88);
  t.same(
    (await ledger.roots(0, 10)).map(({ leaf_count }) => leaf_count),
    [3, 256, 256, 256],
  );
  t.same(
    (await ledger.roots(2, 1)).map(({ sequence }) => sequence),
    [3],
  );
});

t.test('every hash has a proof under a signed root of one chain, also after a start', async (t) => {
  const ground = await place(t);
  const ledger = await ledgerOf(t, ground);
  const given = hashes(700);
  for (let at = 0; at < given.length; at += 50) await ledger.submit(given.slice(at, at + 50));
  await until(() => ledger.sequence === 2);
  await ledger.close();
  const again = await ledgerOf(t, ground);
  t.equal(again.pending, 188, 'what was taken and not closed is there');
  clock.advance(1_000);
  await until(() => again.sequence === 3);
  const end = followChain(nothingSeen('acme'), await again.roots(0, 500), KEYS);
  t.equal(end.sequence, 3);
  for (const hash of given) {
    const found = await again.inclusion(hash);
    if (found.status !== 'verified') throw new Error(found.status);
    checkInclusion(found.proof, hash.toString('hex'));
    checkSignature(found.proof.root, KEYS);
  }
  await again.submit(given);
  t.equal(again.pending, 0, 'what is handed in twice changes nothing');
});

t.test('each root goes on in every later one, whatever was read, kept and made again', async (t) => {
  const ground = await place(t);
  const reads: number[] = [];
  const leaves = await LeafLog.open(join(ground.dir, 'acme.leaves'), 0);
  t.capture(leaves, 'read', (first: number, length: number) => {
    reads.push(length);
    return LeafLog.prototype.read.call(leaves, first, length);
  });
  const options = { orgId: 'acme', store: ground.store, leaves, signers: oneSigner('ledger-1', privateKey), clock, log: silentLogger };
  const ledger = await OrgLedger.open(options);
  const given = hashes(70_000);
  const sizes = [1, 2, 300, 1_000, 33_000, 65_536, 70_000];
  for (const [at, size] of sizes.entries()) {
    await ledger.submit(given.slice(sizes[at - 1] ?? 0, size));
    await until(() => ledger.pending < 256);
    clock.advance(1_000);
    await until(() => ledger.pending === 0);
  }
  const roots = await ledger.roots(0, 500);
  const treeOf = (size: number) => treeHeadOf(roots.find(({ tree_size }) => tree_size === size) as MerkleRoot) as TreeHead;
  const tree = (size: number) => treeRoot(given.slice(0, size).map((hash) => recordLeaf(hash.toString('hex')))).toString('hex');
  for (const size of [1, 300, 65_536]) t.equal(treeOf(size).tree_hash, tree(size), 'over all hashes in the order of their inclusion');
  const proveAll = async (one: OrgLedger) => {
    for (const [at, first] of sizes.entries()) {
      for (const second of sizes.slice(at)) {
        reads.length = 0;
        const proof = await one.consistency(treeOf(first).sequence, treeOf(second).sequence);
        checkConsistency(proof, treeOf(first), treeOf(second));
        const read = reads.reduce((sum, length) => sum + length, 0);
        if (read > 600) t.fail(`${first} to ${second} reads ${read} leaves`);
      }
    }
  };
  await proveAll(ledger);
  reads.length = 0;
  await ledger.submit(hashes(1));
  clock.advance(1_000);
  await until(() => ledger.pending === 0);
  t.ok(
    reads.every((length) => length <= 256),
    'a batch is closed by what it has itself',
  );
  await ledger.close();

  // What a version without trees has left: heads without peaks, and no node.
  const { value } = (await ground.store.entity('ledger_head', 'acme')) ?? {};
  const { peaks: _peaks, ...head } = value as { peaks: readonly string[]; leaves: number };
  const nodes = await ground.store.list('ledger_node');
  t.equal(nodes.length, 274, '273 of 256 leaves, 1 of 65,536');
  await ground.store.commit(undefined, [
    { op: 'put', space: 'ledger_head', key: 'acme', value: head },
    ...nodes.map(({ key }) => ({ op: 'delete', space: 'ledger_node', key }) as const),
  ]);
  const again = await ledgerOf(t, ground);
  await t.rejects(again.consistency(1, treeOf(70_000).sequence), { code: 'record_store_unavailable' });
  await again.submit(hashes(1));
  clock.advance(1_000);
  await until(() => again.pending === 0);
  t.same(await ground.store.list('ledger_node'), nodes, 'made again from the leaves');
  await proveAll(again);
  followChain(nothingSeen('acme'), [...roots, ...(await again.roots(roots.length, 500))], KEYS);
});

t.test(
  'what is asked between roots that have no tree, or are not there, has a clear answer, and changed leaves prove nothing',
  async (t) => {
    const ground = await place(t);
    const ledger = await ledgerOf(t, ground);
    for (let sequence = 1; sequence <= 3; sequence++) {
      await ledger.submit(hashes(5));
      clock.advance(1_000);
      await until(() => ledger.sequence === sequence);
    }
    const key = 'acme 000000000000001';
    const stored = (await ground.store.get('ledger_root', key)) as { readonly root: MerkleRoot };
    const { tree_size: _size, tree_hash: _hash, ...before } = stored.root;
    await ground.store.commit(undefined, [{ op: 'put', space: 'ledger_root', key, value: { ...stored, root: before } }]);
    await t.rejects(ledger.consistency(1, 2), { code: 'conflict', message: /Root 1 .* before roots had a tree/ });
    await t.rejects(ledger.consistency(2, 4), { code: 'not_found', message: /no root 4/ });
    t.match(await ledger.consistency(2, 2), { path: [] });
    t.match(await ledger.consistency(2, 3), { first: { sequence: 2, tree_size: 10 }, second: { sequence: 3, tree_size: 15 } });
    await ledger.close();
    const file = join(ground.dir, 'acme.leaves');
    const leaves = await LeafLog.open(file, 15);
    const kept = await leaves.read(0, 15);
    await leaves.close();
    rmSync(file);
    const other = await LeafLog.open(file, 0);
    await other.append(kept.with(3, randomBytes(32)));
    await other.close();
    const changed = await ledgerOf(t, ground);
    await t.rejects(changed.consistency(2, 3), { code: 'record_store_unavailable', message: /is not what roots 2 and 3 were signed over/ });
  },
);

t.test('orgs have ledgers of their own, whose names may begin alike', async (t) => {
  const ground = await place(t);
  const [one, other] = [await ledgerOf(t, ground, 'a'), await ledgerOf(t, ground, 'ab')];
  const [hash] = hashes(1) as [Buffer];
  await one.submit([hash]);
  await other.submit([hash]);
  clock.advance(1_000);
  await until(() => one.sequence === 1 && other.sequence === 1);
  t.same(
    (await one.roots(0, 10)).map(({ org_id }) => org_id),
    ['a'],
  );
});

t.test('of two who write one ledger only one signs a sequence', async (t) => {
  const ground = await place(t);
  const one = await ledgerOf(t, ground);
  const other = await ledgerOf(t, ground);
  await one.submit(hashes(1));
  await other.submit(hashes(1));
  clock.advance(1_000);
  await until(() => one.sequence + other.sequence === 1);
  t.equal((await one.roots(0, 10)).length, 1);
});

t.test('a commit that fails leaves everything as it was, and is tried again', async (t) => {
  const ground = await place(t);
  let failures = 2;
  const { store: real } = ground;
  const store: OrgLedgerOptions['store'] = {
    commit: (...given) => (failures-- > 0 ? Promise.reject(new Error('no room')) : real.commit(...given)),
    entity: (...given) => real.entity(...given),
    entities: (...given) => real.entities(...given),
    get: (...given) => real.get(...given),
  };
  const ledger = await ledgerOf(t, { dir: ground.dir, store });
  await ledger.submit(hashes(2));
  clock.advance(1_000);
  await until(() => failures === 1);
  t.equal(ledger.sequence, 0);
  while (ledger.sequence === 0) {
    clock.advance(1_000);
    await new Promise((resolve) => setImmediate(resolve));
  }
  t.equal(ledger.pending, 0);
  followChain(nothingSeen('acme'), await ledger.roots(0, 10), KEYS);
});

t.test('a commit whose answer was lost, and a head that cannot be read for once, hold up no later batch', async (t) => {
  const ground = await place(t);
  const { store: real } = ground;
  let lost = 1;
  let unread = 0;
  const store: OrgLedgerOptions['store'] = {
    commit: async (...given) => {
      await real.commit(...given);
      if (lost-- > 0) {
        unread = 2;
        throw new Error('no answer');
      }
    },
    entity: (...given) => (unread-- > 0 ? Promise.reject(new Error('not now')) : real.entity(...given)),
    entities: (...given) => real.entities(...given),
    get: (...given) => real.get(...given),
  };
  const ledger = await ledgerOf(t, { dir: ground.dir, store });
  const advance = async (sequence: number): Promise<void> => {
    while (ledger.sequence < sequence) {
      clock.advance(1_000);
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  await ledger.submit(hashes(2));
  await advance(1);
  t.equal(ledger.pending, 0);
  await ledger.submit(hashes(3));
  await advance(2);
  const roots = await ledger.roots(0, 10);
  t.same(
    roots.map(({ leaf_count }) => leaf_count),
    [2, 3],
    'nothing is signed twice',
  );
  followChain(nothingSeen('acme'), roots, KEYS);
});

t.test('ledgers are opened when they are needed, and closed when nobody uses them', async (t) => {
  const { dir, store } = await place(t);
  const opened: string[] = [];
  const files = leafFiles(dir);
  const watched: LeafPlace = {
    ...files,
    open: (orgId, atLeast) => {
      opened.push(orgId);
      return files.open(orgId, atLeast);
    },
  };
  const start = (orgIds: readonly string[]) =>
    OrgLedgers.open({ store, place: watched, signers: oneSigner('ledger-1', privateKey), clock, log: silentLogger }, orgIds);
  const orgs = Array.from({ length: MOST_OPEN_LEDGERS + 20 }, (_, index) => `org-${index}`);
  const first = await start(orgs);
  t.same(opened, [], 'an org without leaves has no file');
  const given = new Map(orgs.map((org) => [org, hashes(1)]));
  for (const [org, leaves] of given) await first.submit(org, leaves);
  t.equal(first.openCount, orgs.length, 'those whose hashes wait stay open');
  clock.advance(1_000);
  await until(() => first.pending === 0);
  clock.advance(1_000);
  t.equal(first.openCount, MOST_OPEN_LEDGERS);
  for (const [org, [hash]] of given) t.equal((await first.inclusion(org, hash as Buffer)).status, 'verified', org);
  t.equal(first.openCount, MOST_OPEN_LEDGERS);
  for (let minute = 0; minute < 12; minute++) clock.advance(60_000);
  t.equal(first.openCount, 0, 'nobody has used them');
  const again = hashes(2);
  await Promise.all(again.map((hash) => first.submit('org-3', [hash])));
  t.equal(first.pending, 2);
  await first.close();
  opened.length = 0;
  const second = await start(orgs);
  t.same(opened, ['org-3'], 'a start opens those that have leaves without a root');
  clock.advance(1_000);
  await until(() => second.pending === 0);
  t.equal((await second.roots('org-3', 0, 10)).length, 2);
  await second.close();
});

t.test('leaves that take nothing any more after a failed write are opened again by the next call', async (t) => {
  const { dir, store } = await place(t);
  const files = leafFiles(dir);
  let opened = 0;
  let failing = false;
  const watched: LeafPlace = {
    ...files,
    open: async (orgId, atLeast) => {
      const leaves = await files.open(orgId, atLeast);
      const isFailing = failing;
      opened++;
      return {
        get count() {
          return leaves.count;
        },
        get isBroken() {
          return isFailing;
        },
        append: (given) => (isFailing ? Promise.reject(new Error('ENOSPC')) : leaves.append(given)),
        find: (hash) => leaves.find(hash),
        read: (first, length) => leaves.read(first, length),
        close: () => leaves.close(),
      };
    },
  };
  const signers = oneSigner('ledger-1', privateKey);
  const ledgers = await OrgLedgers.open({ store, place: watched, signers, clock, log: silentLogger }, []);
  const given = hashes(3);
  failing = true;
  for (let i = 1; i <= 3; i++) {
    await t.rejects(ledgers.submit('acme', given), { code: 'record_store_unavailable' });
    t.equal(opened, i);
  }
  failing = false;
  await ledgers.submit('acme', given);
  t.equal(ledgers.pending, 3);
  await ledgers.close();
});
