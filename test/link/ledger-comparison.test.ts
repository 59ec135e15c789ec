// What a gateway believes of a control plane that says that its ledger was restored.
import t from 'tap';
import { type Logger, silentLogger } from '../../src/base/lib/log.ts';
import { sha256Hex } from '../../src/base/lib/sha256.ts';
import { ProtocolError } from '../../src/control-plane/proto/protocol-error.ts';
import { LedgerComparison } from '../../src/link/ledger-comparison.ts';
import type { Channel } from '../../src/link/link-ports.ts';
import { RemoteKeys } from '../../src/link/remote-keys.ts';
import { makeLedger } from '../support/made-ledger.ts';

const BATCHES = [[sha256Hex('kept')], [sha256Hex('later')]];
const RESTORED = { batch: 1, sequence: 1_001 };
const LEDGER = makeLedger(BATCHES, { restored: RESTORED });
const [PLAIN, ROOT] = LEDGER.roots;

async function place() {
  const logged: object[] = [];
  const log: Logger = Object.assign(Object.create(silentLogger) as Logger, { error: (about: object) => void logged.push(about) });
  const keys = await RemoteKeys.open({ get: () => Promise.resolve(undefined), commit: () => Promise.resolve() });
  const said = { newest_root: 'the newest', restore_root: '', behind: false };
  const calls: string[] = [];
  let fault: ProtocolError | undefined;
  const channel: Pick<Channel, 'call'> = {
    call: async (name: string) => {
      calls.push(name);
      if (fault !== undefined) throw fault;
      if (name === 'CompareLedger') return { org: null, ...said };
      const listed = LEDGER.keys.map((key) => ({
        ...key,
        public_key: Buffer.from(key.public_key, 'base64'),
        not_before: '',
        not_after: '',
      }));
      return { org: null, version: '1', keys: listed, ca_certificates: [] };
    },
  };
  const comparison = new LedgerComparison({ keys, orgId: 'acme', log });
  return {
    logged,
    calls,
    said,
    compare: () => comparison.compare(channel, 'seen'),
    fails: (error: ProtocolError) => {
      fault = error;
    },
  };
}

t.test('a restore counts when the key of the ledger has signed it for the org, and nothing else does', async (t) => {
  const { said, compare, calls, logged } = await place();
  t.same(await compare(), { newest: 'the newest', restore: undefined });
  const right = { newest: 'the newest', restore: { sequence: 1_001, from_sequence: 1, epoch: 1, kid: 'ledger-1' } };
  for (const [what, text] of [
    ['of another org', JSON.stringify(makeLedger(BATCHES, { restored: RESTORED, org: 'globex' }).roots[1])],
    ['by another key of that name', JSON.stringify(makeLedger(BATCHES, { restored: RESTORED, seed: 8 }).roots[1])],
    ['by a key that is not listed', JSON.stringify(makeLedger(BATCHES, { restored: RESTORED, kid: 'ledger-2' }).roots[1])],
    ['that was changed', JSON.stringify({ ...ROOT, sequence: 1_002 })],
    ['that is none', JSON.stringify(PLAIN)],
    ['that is cut off', '{'],
    ['that is no object', '1'],
  ] as const) {
    said.restore_root = text;
    t.same((await compare())?.restore, undefined, what);
  }
  t.equal(logged.length, 6, 'each that proves nothing is told');
  await compare();
  t.equal(logged.length, 6, 'once');
  said.restore_root = JSON.stringify(ROOT);
  t.match(await compare(), right);
  t.equal(calls.filter((name) => name === 'FetchKeys').length, 2, 'keys are fetched for those that are not known');
});

t.test(
  'a control plane that knows less than it has shown is no ledger to hand hashes to, and one of before is asked no more',
  async (t) => {
    const { said, compare, fails } = await place();
    said.behind = true;
    await t.rejects(compare(), /was put back from a backup, and takes no hashes until that is declared \(gw control-plane restored\)/);
    fails(new ProtocolError('UNAVAILABLE', 'nobody'));
    await t.rejects(compare(), { message: 'nobody' });
    fails(new ProtocolError('UNIMPLEMENTED', 'no such call'));
    t.equal(await compare(), undefined);
  },
);
