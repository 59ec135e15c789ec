// What a gateway says of a record's proof, against a control plane that says everything that one may say, and more.
import t from 'tap';
import type { Logger } from '../../src/base/lib/log.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import { sha256Hex } from '../../src/base/lib/sha256.ts';
import type { ControlPlaneCalls } from '../../src/control-plane/proto/messages.ts';
import type { InclusionProof } from '../../src/ledger/inclusion-proof.ts';
import type { ListedKey } from '../../src/ledger/ledger-answers.ts';
import type { CutSpan } from '../../src/ledger/ledger-restore.ts';
import { signRoot } from '../../src/ledger/merkle-root.ts';
import type { Channel } from '../../src/link/link-ports.ts';
import { RecordProofs } from '../../src/link/record-proofs.ts';
import { RemoteKeys } from '../../src/link/remote-keys.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { ledgerKey, makeLedger } from '../support/made-ledger.ts';

const HASHES = Array.from({ length: 5 }, (_, at) => sha256Hex(`record ${at}`));
const [HASH = '', OTHER = ''] = HASHES;
const RECORD = { id: 'record-0', hash: HASH };
const LEDGER = makeLedger([HASHES]);

type ProofAnswer = ControlPlaneCalls['FetchProof']['response'];

/** Answers as it is told. */
class Teller {
  readonly calls: string[] = [];
  away = false;
  keysAway = false;
  keys: readonly ListedKey[] = LEDGER.keys;
  answer: Pick<ProofAnswer, 'status' | 'inclusion_proof'> = { status: 'verified', inclusion_proof: proofText() };

  readonly channel: Pick<Channel, 'call'> = {
    call: (async (name: string) => {
      this.calls.push(name);
      if (this.away || (name === 'FetchKeys' && this.keysAway)) throw new Error('nobody answers');
      if (name === 'FetchProof') return { org: null, ...this.answer };
      const keys = this.keys.map((key) => ({ ...key, public_key: Buffer.from(key.public_key, 'base64') }));
      return { org: null, keys, ca_certificates: [] };
    }) as Channel['call'],
  };

  asked(name: string): number {
    return this.calls.filter((call) => call === name).length;
  }
}

function proofText(of: InclusionProof | undefined = LEDGER.proofOf(HASH), changes: object = {}): string {
  return JSON.stringify({ ...of, ...changes });
}

/** Keeps nothing. */
const emptyStore = { get: () => Promise.resolve(undefined), commit: () => Promise.resolve() };

async function place() {
  const teller = new Teller();
  const clock = fakeClock();
  const logged: object[] = [];
  const log: Logger = Object.assign(Object.create(silentLogger) as Logger, { error: (about: object) => void logged.push(about) });
  const state = { acknowledged: true, sentAgain: 0 };
  const cuts: CutSpan[] = [];
  const submission = {
    cuts,
    acknowledged: () => Promise.resolve(state.acknowledged),
    sendAgain: () => {
      state.sentAgain++;
      return Promise.resolve();
    },
  };
  const proofs = new RecordProofs({
    channel: teller.channel,
    submission,
    keys: await RemoteKeys.open(emptyStore),
    orgId: 'acme',
    clock,
    log,
  });
  return { teller, clock, logged, state, cuts, proofs };
}

t.test('a proof is asked for once, checked, and kept; the keys are asked for once for all of them', async (t) => {
  const { teller, proofs, logged, state } = await place();
  const said = await proofs.inclusion(RECORD);
  t.same(said, { status: 'verified', inclusion_proof: LEDGER.proofOf(HASH) });
  t.same(teller.calls, ['FetchProof', 'FetchKeys']);
  t.same(await proofs.inclusion(RECORD), said);
  t.equal(teller.calls.length, 2, 'what was checked is kept');
  teller.answer = { status: 'verified', inclusion_proof: proofText(LEDGER.proofOf(OTHER)) };
  t.match(await proofs.inclusion({ id: 'record-1', hash: OTHER }), { status: 'verified' });
  t.same(teller.calls, ['FetchProof', 'FetchKeys', 'FetchProof']);
  t.same(logged, []);
  t.equal(state.sentAgain, 0);
});

t.test('what waits is pending, and asks nobody before it was acknowledged', async (t) => {
  const { teller, proofs, state } = await place();
  state.acknowledged = false;
  t.same(await proofs.inclusion(RECORD), { status: 'pending_inclusion' });
  t.same(teller.calls, []);
  state.acknowledged = true;
  teller.answer = { status: 'pending_inclusion', inclusion_proof: '' };
  t.same(await proofs.inclusion(RECORD), { status: 'pending_inclusion' });
  t.equal(state.sentAgain, 0);
  teller.answer = { status: 'verified', inclusion_proof: proofText() };
  t.match(await proofs.inclusion(RECORD), { status: 'verified' }, 'it is asked for again each time');
});

t.test('a hash that was acknowledged and is not known makes everything go again', async (t) => {
  const { teller, proofs, state } = await place();
  teller.answer = { status: 'unknown', inclusion_proof: '' };
  t.same(await proofs.inclusion(RECORD), { status: 'pending_inclusion' });
  t.equal(state.sentAgain, 1);
});

t.test('a proof of a span that a restore has cut is shown as that until there is another one', async (t) => {
  const { teller, proofs, state, cuts } = await place();
  const before = await proofs.inclusion(RECORD);
  const cut: CutSpan = { epoch: 1, from_sequence: 0, sequence: 1_001, at: '2026-01-01T00:00:00.000Z', kid: 'ledger-1' };
  cuts.push(cut);
  state.acknowledged = false;
  t.same(await proofs.inclusion(RECORD), { ...before, cut_by_restore: cut }, 'while its hash waits to be handed in again');
  state.acknowledged = true;
  teller.answer = { status: 'pending_inclusion', inclusion_proof: '' };
  t.same(await proofs.inclusion(RECORD), { ...before, cut_by_restore: cut }, 'while it waits for a root');
  teller.away = true;
  t.same(await proofs.inclusion(RECORD), { ...before, cut_by_restore: cut }, 'while nobody answers');
  teller.away = false;
  const after = makeLedger([HASHES], { restored: { batch: 0, sequence: 1_001 } });
  teller.answer = { status: 'verified', inclusion_proof: proofText(after.proofOf(HASH)) };
  const found = { status: 'verified', inclusion_proof: after.proofOf(HASH) };
  t.same(await proofs.inclusion(RECORD), found);
  teller.away = true;
  t.same(await proofs.inclusion(RECORD), found, 'and the new one is kept');
});

t.test('what proves nothing is never called verified: it is 502, logged, and asked for again', async (t) => {
  const proof = LEDGER.proofOf(HASH);
  if (proof === undefined) throw new Error('there is a proof');
  const { root, path } = proof;
  const { sig: _sig, ...unsigned } = root;
  const stranger = makeLedger([HASHES], { kid: 'ledger-2', seed: 8 });
  const cases: readonly (readonly [what: string, text: string, says: RegExp])[] = [
    ['of another leaf', proofText(LEDGER.proofOf(OTHER)), /of another record/],
    ['of another leaf, under our name', proofText(LEDGER.proofOf(OTHER), { record_hash: HASH }), /path does not lead to root_hash/],
    ['of the ledger of another org', proofText(makeLedger([HASHES], { org: 'globex' }).proofOf(HASH)), /root is of another org \(globex\)/],
    ['signed with a key that is not listed', proofText(stranger.proofOf(HASH)), /a key that is not known \(ledger-2\)/],
    ['signed with another key of that name', proofText(makeLedger([HASHES], { seed: 8 }).proofOf(HASH)), /signature does not fit/],
    ['with a root that was changed', proofText(proof, { root: { ...root, sequence: 9 } }), /signature does not fit/],
    ['with a step that was changed', proofText(proof, { path: path.map((step) => ({ ...step, hash: OTHER })) }), /does not lead/],
    ['with a step too few', proofText(proof, { path: path.slice(1) }), /path is not that of leaf/],
    ['with a side that was turned', proofText(proof, { path: path.map((step) => ({ ...step, side: 'left' })) }), /path is not that of/],
    ['for another number of leaves', proofText(proof, { leaf_count: 6 }), /another number of leaves/],
    ['of another batch', proofText(proof, { batch_id: 'acme/2' }), /of another batch/],
    ['without a root', proofText(proof, { root: undefined }), /root: it is not an object/],
    ['of a batch that has no leaf', proofText(proof, { leaf_count: 0 }), /leaf_count/],
    [
      'with another algorithm',
      proofText(proof, { root: { ...signRoot(unsigned, 'ledger-1', ledgerKey(7)), sig: { ...root.sig, alg: 'none' } } }),
      /alg/,
    ],
    ['of another schema', proofText(proof, { schema: 'gw.inclusion_proof.v2' }), /schema/],
    ['that is empty', '', /not JSON/],
    ['that is cut off', proofText().slice(0, -20), /not JSON/],
    ['that is null', 'null', /not an object/],
  ];
  for (const [what, text, says] of cases) {
    const { teller, proofs, logged, state } = await place();
    teller.answer = { status: 'verified', inclusion_proof: text };
    for (const time of ['', ', and again']) {
      const failed = proofs.inclusion(RECORD);
      await t.rejects(failed, { code: 'ledger_proof_invalid', message: says }, what + time);
    }
    t.equal(teller.asked('FetchProof'), 2, `${what}: it is not kept`);
    t.match(logged, [{ record_hash: HASH }, { record_hash: HASH }], `${what}: it is logged`);
    t.equal(state.sentAgain, 0);
    teller.answer = { status: 'verified', inclusion_proof: proofText() };
    t.match(await proofs.inclusion(RECORD), { status: 'verified' }, `${what}: the right one is taken`);
  }
});

t.test('a key that is not known is asked for once, and again after a while', async (t) => {
  const { teller, clock, proofs } = await place();
  const next = makeLedger([HASHES], { kid: 'ledger-2', seed: 8 });
  teller.answer = { status: 'verified', inclusion_proof: proofText(next.proofOf(HASH)) };
  for (const _ of [1, 2, 3]) await t.rejects(proofs.inclusion(RECORD), { code: 'ledger_proof_invalid' });
  t.equal(teller.asked('FetchKeys'), 1, 'whoever sends roots of unknown keys causes no storm of questions');
  teller.keys = [...LEDGER.keys, ...next.keys];
  clock.advance(10_000);
  t.match(await proofs.inclusion(RECORD), { status: 'verified' }, 'a key that was added is learned');
  t.equal(teller.asked('FetchKeys'), 2);
});

t.test('a list of keys that cannot be read, or a key for bundles, proves nothing', async (t) => {
  const [key] = LEDGER.keys;
  if (key === undefined) throw new Error('there is a key');
  const lists: readonly (readonly [keys: readonly ListedKey[], says: RegExp])[] = [
    [[], /not known/],
    [[{ ...key, use: 'bundle' }], /not known/],
    [[key, key], /two keys of the name/],
    [[{ ...key, public_key: 'AAAA' }], /public_key/],
  ];
  for (const [keys, says] of lists) {
    const { teller, proofs } = await place();
    teller.keys = keys;
    await t.rejects(proofs.inclusion(RECORD), { code: 'ledger_proof_invalid', message: says });
  }
});

t.test('while the control plane is away what was taken cannot be told, what waits is pending, and what was checked stays', async (t) => {
  const { teller, proofs, state } = await place();
  t.match(await proofs.inclusion(RECORD), { status: 'verified' });
  teller.away = true;
  t.match(await proofs.inclusion(RECORD), { status: 'verified' });
  await t.rejects(proofs.inclusion({ id: 'record-1', hash: OTHER }), { code: 'control_plane_unreachable' });
  state.acknowledged = false;
  t.same(await proofs.inclusion({ id: 'record-1', hash: OTHER }), { status: 'pending_inclusion' });

  const fresh = await place();
  fresh.teller.keysAway = true;
  await t.rejects(
    fresh.proofs.inclusion(RECORD),
    { code: 'control_plane_unreachable' },
    'a proof whose key could not be asked for is no false one',
  );
  t.same(fresh.logged, []);
  fresh.teller.keysAway = false;
  t.match(await fresh.proofs.inclusion(RECORD), { status: 'verified' }, 'and is asked for at the next question');
});
