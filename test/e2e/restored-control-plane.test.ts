// The data folder of a control plane is put back from a backup: who says so is told from a fork, by all who look.
import { randomBytes } from 'node:crypto';
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { readProof } from '../../src/ledger/inclusion-proof.ts';
import { rootDigest } from '../../src/ledger/merkle-root.ts';
import { eventually } from '../support/child.ts';
import { PROTOCOL, type RunningControlPlane, runControlPlane, TIMEOUT_MS } from '../support/control-plane.ts';
import { CuttableLink } from '../support/cuttable-link.ts';
import { ALLOW_ALL, startGoverned } from '../support/governed.ts';
import { type AskJson, askPublicly, LedgerJudge, verifiedProof } from '../support/ledger-judge.ts';
import { named } from '../support/linked-gateway.ts';
import { gw } from '../support/run-gw.ts';
import { tempDir } from '../support/temp-dir.ts';

const EXIT_RESTORED = 3;

/** A control plane whose folder is copied, goes on, and is put back. */
async function place(t: Test) {
  const folder = tempDir(t);
  const dataDir = join(folder, 'control-plane');
  const urlOf = ({ plane }: RunningControlPlane) => `http://127.0.0.1:${plane.httpPort}`;
  const judge = (running: RunningControlPlane) => LedgerJudge.read(askPublicly(urlOf(running)), 'acme');
  const env = { CP_DATA_DIR: dataDir };
  const witness = join(folder, 'witness.pem');
  const { out: vkey } = await gw(['verify', '--witness-key', witness, '--name', 'w.example.com']);
  const witnessKeys = [vkey.trim().replace('CP_WITNESS_KEYS=', '')];
  const start = () => runControlPlane(t, {}, { dataDir, ledgerName: 'ledger.example.com', checkpointInterval: 1, witnessKeys });
  const first = await start();
  const { identity } = await first.enrol('acme', 'node-1');
  /** A root of its own for each. @returns the hashes */
  const grow = async (running: RunningControlPlane, count: number): Promise<readonly string[]> => {
    const hashes = Array.from({ length: count }, () => randomBytes(32));
    for (const hash of hashes) {
      const { leaves } = await judge(running);
      await running.client(identity).call(PROTOCOL.controlPlane, 'SubmitHashes', { hashes: [hash] }, TIMEOUT_MS);
      await eventually('a root', async () => (await judge(running)).leaves > leaves || undefined);
    }
    return hashes.map((hash) => hash.toString('hex'));
  };
  return {
    folder,
    first,
    start,
    judge,
    grow,
    env,
    asWitness: ['--cosign', witness, '--name', 'w.example.com'],
    declare: (...more: string[]) => gw(['control-plane', 'restored', ...more], { env }),
    watch: async (running: RunningControlPlane, state: string, ...more: string[]) => {
      const { code, out, err } = await gw(['verify', '--watch', urlOf(running), '--state', join(folder, state), '--org', 'acme', ...more]);
      return { code, said: `${out}${err}` };
    },
    /** What anybody may ask, in a file. */
    saved: async (running: RunningControlPlane, name: string, path: string) => {
      const file = join(folder, name);
      writeFileSync(file, await (await fetch(`${urlOf(running)}/v1/${path}`)).text());
      return file;
    },
    backUp: (name: string) => cpSync(dataDir, join(folder, name), { recursive: true }),
    putBack: (name: string) => {
      rmSync(dataDir, { recursive: true });
      cpSync(join(folder, name), dataDir, { recursive: true });
    },
  };
}

t.test('a declared restore is told apart from a fork: by watchers, by proofs, by checkpoints, and by who verifies roots', async (t) => {
  const { folder, first, start, judge, grow, env, asWitness, declare, watch, saved, backUp, putBack } = await place(t);
  const [kept = ''] = await grow(first, 2);
  t.match(await watch(first, 'early'), { code: 0 });
  await first.plane.stop();
  backUp('backup');

  const second = await start();
  const [lost = '', lostToo = ''] = await grow(second, 2);
  const keys = await saved(second, 'keys.json', 'keys');
  const oldProof = await saved(second, 'old-proof.json', `orgs/acme/proofs/${lost}`);
  const oldCheckpoint = await saved(second, 'old-checkpoint.txt', 'orgs/acme/checkpoint');
  const oldConsistency = await saved(second, 'old-consistency.json', 'orgs/acme/consistency?first=1&second=4');
  t.match(await watch(second, 'late'), { code: 0 });
  t.match(await watch(second, 'forked'), { code: 0 });
  t.match(await watch(second, 'witness', ...asWitness), {
    code: 0,
    said: /cosigned {2}4 hashes of ledger\.example\.com\/orgs\/acme, root 4/,
  });
  const { roots: before } = await judge(second);
  await second.plane.stop();

  // Nobody says so: a fork, as ever.
  putBack('backup');
  const undeclared = await start();
  t.match(await watch(undeclared, 'forked'), { code: 1, said: /^BROKEN {2}acme: the ledger ends before root 4/ });
  await grow(undeclared, 3);
  t.match(await watch(undeclared, 'forked'), { code: 1, said: /root 4 was rewritten/ });
  await undeclared.plane.stop();

  putBack('backup');
  t.match(await declare('--reason', 'a\nb', '--yes'), { code: 2, err: /--reason/ });
  t.match(await gw(['control-plane', 'restored'], { env, lines: ['n'] }), { code: 1, err: /acme: root 2[\s\S]*Nothing was changed/ });
  t.match(await declare('--reason', 'the disk was lost', '--yes', '--json'), { code: 0, out: /"epoch":1/ });
  t.match(await declare('--yes'), { code: 1, err: /declared already, at .* and nothing was signed since: start the control plane/ });
  const third = await start();
  const { roots } = await judge(third);
  t.equal(roots.length, 3, 'each ledger shows it before anybody can ask');
  const [, end, shown] = roots;
  t.match(shown, { restored: { epoch: 1, from_sequence: 2, reason: 'the disk was lost' }, leaf_count: 1, tree_size: 3 });
  t.equal(shown?.prev_root_hash, end === undefined ? '' : rootDigest(end));
  const cut = shown?.sequence ?? 0;
  t.ok(cut > 100_000_000_000, 'no sequence is signed twice, whatever was signed before');
  t.same(roots.slice(0, 2), before.slice(0, 2));

  const state = readFileSync(join(folder, 'late'));
  const told = new RegExp(
    `^RESTORED {2}acme: .*roots 3 to ${cut - 1} are cut: the backup ended with root 2; declared at 20.*Z \\(the disk was lost\\), signed in root ${cut} with ledger-`,
  );
  t.match(await watch(third, 'late'), { code: EXIT_RESTORED, said: told });
  t.match(await watch(third, 'late', '--json'), { code: EXIT_RESTORED, said: `"restored":{"sequence":${cut},"from_sequence":2` });
  t.same(readFileSync(join(folder, 'late')), state, 'what was seen is still remembered');
  t.match(await watch(third, 'early'), { code: EXIT_RESTORED, said: /All that was seen, up to root 2, is what it was/ });
  t.match(await watch(third, 'late', '--accept-restore', String(cut - 1)), { code: EXIT_RESTORED }, 'another one than that');
  t.match(await watch(third, 'late', '--accept-restore', 'all'), { code: 2 });
  t.match(await watch(third, 'late', '--accept-restore', String(cut)), { code: 0, said: /root 4 was cut, up to root/ });
  t.match(await watch(third, 'late'), { code: 0, said: /^goes on/ });
  t.match(await watch(third, 'early', '--accept-restore', String(cut)), { code: 0, said: /root 2 is what it was, up to root/ });
  t.match(await watch(third, 'witness', ...asWitness), { code: EXIT_RESTORED }, 'a smaller tree is not cosigned unless somebody says so');
  t.match(await (await fetch(`http://127.0.0.1:${third.plane.httpPort}/v1/orgs/acme/checkpoint?cosigned=1`)).text(), /No checkpoint/);
  t.match(
    await watch(third, 'witness', ...asWitness, '--accept-restore', String(cut)),
    { code: 0, said: `cosigned  3 hashes of ledger.example.com/restored/${cut}/orgs/acme` },
    'and then as another log: of one the key signs one history',
  );
  t.match(await watch(third, 'witness', ...asWitness), { code: 0 });
  t.match(await watch(third, 'new'), { code: 0, said: /restored {2}roots 3 to/ }, 'who begins now is told');

  await grow(third, 1);
  for (const hash of [lost, lostToo]) {
    const { status } = await fetch(`http://127.0.0.1:${third.plane.httpPort}/v1/orgs/acme/proofs/${hash}`);
    t.equal(status, 404, 'what was handed in later is not known any more');
  }
  t.match(await watch(third, 'late'), { code: 0, said: /root \d+ is what it was, 1 more/ });
  t.match((await saved(third, 'proof.json', `orgs/acme/proofs/${kept}`)) && readFileSync(join(folder, 'proof.json'), 'utf8'), kept);

  const { client: newcomer } = await third.enrol('globex', 'node-1');
  await newcomer.call(PROTOCOL.controlPlane, 'SubmitHashes', { hashes: [randomBytes(32)] }, TIMEOUT_MS);
  const begun = await eventually('the first root of an org that the backup did not have', async () => {
    const { roots: all } = await LedgerJudge.read(askPublicly(`http://127.0.0.1:${third.plane.httpPort}`), 'globex');
    return all.length > 0 ? all : undefined;
  });
  t.match(
    begun,
    [{ sequence: cut, restored: { from_sequence: 0 }, prev_root_hash: '0'.repeat(64), tree_size: 1 }],
    'it may have been there',
  );

  const chain = ['--roots', await saved(third, 'roots.json', 'orgs/acme/roots'), '--keys', keys];
  t.match(await gw(['verify', ...chain]), { code: 0, out: /without a gap but for what a restore has cut[\s\S]*restored +roots 3 to/ });
  const record = join(folder, 'record.json');
  writeFileSync(record, '{}');
  const consistency = await saved(third, 'consistency.json', `orgs/acme/consistency?first=1&second=${cut}`);
  t.match(
    await gw(['verify', ...chain, '--consistency', consistency]),
    { code: 0, out: /of which the first 1 are those of root 1/ },
    'the backup is a prefix of both',
  );
  t.match(await gw(['verify', ...chain, '--consistency', oldConsistency]), {
    code: EXIT_RESTORED,
    out: /^CUT BY A RESTORE[\s\S]*cut +root 4 is of a span that a restore has cut/,
  });
  t.match(await gw(['verify', ...chain, '--checkpoint', oldCheckpoint]), {
    code: EXIT_RESTORED,
    out: /the checkpoint of 4 hashes is of a root in a span that a restore has cut/,
  });
  const checkpoint = await saved(third, 'checkpoint.txt', 'orgs/acme/checkpoint');
  t.match(
    readFileSync(checkpoint, 'utf8'),
    `ledger.example.com/restored/${cut}/orgs/acme\n4\n`,
    'to witnesses it is another log, also with a tree of the same size',
  );
  t.match(await gw(['verify', ...chain, '--checkpoint', checkpoint]), { code: 0 });
  t.match(readFileSync(oldProof, 'utf8'), lost);
});

t.test(
  'a gateway shows what it knows before anything is signed twice, and proves every record again behind a declared restore',
  async (t) => {
    const folder = tempDir(t);
    const dataDir = join(folder, 'control-plane');
    const start = () => runControlPlane(t, {}, { dataDir });
    const first = await start();
    await first.plane.state.orgs.put('acme', {}, first.commit);
    await first.plane.state.bundles.put('acme', ALLOW_ALL, first.commit);
    const { token } = await first.plane.state.tokens.issue('acme', 3_600, first.commit);
    const link = await CuttableLink.start(t, first.plane.grpcPort);
    const settings = { GW_CP_ADDR: link.address, GW_ORG_ID: 'acme', GW_NODE_ID: 'node-1', GW_BOOTSTRAP_TOKEN: token };
    const { gw: gateway, execute } = await startGoverned(t, { env: { ...settings, GW_KEY_DIR: join(folder, 'keys') } });
    const ask: AskJson = (path) => gateway.admin('GET', path);
    const record = async (): Promise<string> =>
      String((await gateway.record(String((await execute({ org_id: 'acme' })).body['record_id'])))['record_hash']);
    const proofOf = async (hash: string) => readProof(await verifiedProof(ask, hash));
    const judge = ({ plane }: RunningControlPlane) => LedgerJudge.read(askPublicly(`http://127.0.0.1:${plane.httpPort}`), 'acme');

    const kept = await record();
    const { root: end } = await proofOf(kept);
    await first.plane.stop();
    cpSync(dataDir, join(folder, 'backup'), { recursive: true });
    const second = await start();
    link.lead(second.plane.grpcPort);
    const lost: string[] = [];
    for (let at = 0; at < 2; at++) {
      lost.push(await record());
      await proofOf(lost.at(-1) ?? '');
    }
    // The root before this one was shown with it.
    const { sequence: seen } = (await proofOf(lost[1] ?? '')).root;
    t.ok(seen > end.sequence);
    await second.plane.stop();
    rmSync(dataDir, { recursive: true });
    cpSync(join(folder, 'backup'), dataDir, { recursive: true });

    const third = await start();
    link.lead(third.plane.grpcPort);
    const waiting = await record();
    await eventually('what the gateway knows', () => (third.plane.counts.ledgersBehind === 1 ? true : undefined));
    t.match(await (await fetch(`http://127.0.0.1:${third.plane.httpPort}/metrics`)).text(), /^cp_ledgers_behind 1$/m);
    await eventually('what waits', async () =>
      /^gw_pending_hash_submissions 1$/m.test((await gateway.admin('GET', '/metrics')).text) ? true : undefined,
    );
    t.equal((await judge(third)).roots.at(-1)?.sequence, end.sequence, 'nothing is signed twice');
    t.match(await ask(`/v1/verify/${lost[0] ?? ''}`), { status: 200, body: { status: 'verified' } }, 'what was proved is still shown');
    await third.plane.stop();
    const still = await start();
    t.equal(still.plane.counts.ledgersBehind, 1, 'a start forgets it not');
    await still.plane.stop();

    t.match(await gw(['control-plane', 'restored', '--yes'], { env: { CP_DATA_DIR: dataDir } }), { code: 0 });
    const fourth = await start();
    t.equal(fourth.plane.counts.ledgersBehind, 0);
    link.lead(fourth.plane.grpcPort);
    const after = await record();
    const cut = (await judge(fourth)).roots.find(({ restored }) => restored !== undefined)?.sequence ?? 0;
    // When the newest one is proved the gateway has heard of the restore.
    for (const hash of [after, waiting, ...lost, kept]) {
      const proof = await eventually(`a proof of ${hash} in the ledger as it is`, async () => {
        const { body } = await ask(`/v1/verify/${hash}`);
        const { cut_by_restore: isCut, inclusion_proof: found } = body as { cut_by_restore?: object; inclusion_proof?: unknown };
        return isCut === undefined ? found : undefined;
      });
      const { root } = (await judge(fourth)).check(proof, hash);
      t.equal(root.sequence >= cut, hash !== kept, 'what the backup had is where it was');
    }
    t.equal((await judge(fourth)).leaves, 1 + 5, 'each is there once, and the restore');
    await fourth.plane.state.bundles.put('acme', named('behind-the-restore'), fourth.commit);
    // Whose hash brings the news.
    await record();
    await eventually('the next bundle, though gateways may have taken later ones than the backup had', async () => {
      const [node] = await fourth.plane.state.nodes.list('acme');
      return (node?.policy_sequence ?? 0) >= cut ? true : undefined;
    });
    const metrics = await (await fetch(`http://127.0.0.1:${fourth.plane.httpPort}/metrics`)).text();
    t.match(metrics, /^cp_ledgers_behind 0$/m);
    t.match(metrics, /^cp_restore_timestamp_seconds 1\d{9}/m);
    const { items } = await fourth.plane.state.audit.page({ operation: 'ledger.restore' }, { limit: 9, after: undefined });
    t.match(items, [
      { principal: { id: 'admin' }, changes: [{ member: 'at' }, { member: 'epoch', after_value: '1' }, { member: 'sequence' }] },
    ]);
  },
);
