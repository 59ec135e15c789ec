// Idempotent answers, asked of the service itself: what the sweep of old keys may take.
import { randomBytes } from 'node:crypto';
import t from 'tap';
import { silentLogger } from '../../../src/base/lib/log.ts';
import { SecretBox } from '../../../src/base/lib/secret-box.ts';
import { IdempotencyService } from '../../../src/services/money/idempotency.ts';
import { openEmbeddedStore } from '../../../src/storage/embedded/open-embedded-store.ts';
import { fakeClock } from '../../support/fake-clock.ts';
import { tempDir } from '../../support/temp-dir.ts';

const DAY_MS = 86_400_000;

t.test('a key that is used again after its day keeps its new answer when the old one is swept', async (t) => {
  const clock = fakeClock();
  const store = await openEmbeddedStore({ dir: tempDir(t), fsync: 'off', clock, log: silentLogger });
  t.teardown(() => store.close());
  const service = await IdempotencyService.open({ store, clock, log: silentLogger, box: new SecretBox([randomBytes(32)]) });
  const result = { upstream_status: 200, content_type: 'application/json', stream: false, whole: true };
  const keep = (record: string) => {
    const call = { record_id: record, action_hash: 'h', status: 200, trace: {}, result };
    return store.commit(
      undefined,
      service.keep({ orgId: 'o', workloadId: 'w', callerIp: '10.0.0.1' }, 'k', call, Buffer.from(`answer of ${record}`)),
    );
  };
  await keep('first');
  clock.set(clock.now() + DAY_MS);
  t.equal(await service.find('o', 'k'), undefined);
  await keep('second');
  await service.sweep();
  t.match(await service.find('o', 'k'), { record_id: 'second' });
  t.equal(String(await service.result('o', 'k')), 'answer of second');
  clock.set(clock.now() + DAY_MS);
  await service.sweep();
  t.equal(await service.find('o', 'k'), undefined);
  t.equal(await service.result('o', 'k'), undefined, 'what is over is removed');
  for (const space of ['idempotent_call', 'idempotent_result', 'idempotent_expiry']) t.same(await store.list(space), [], space);
  await service.close();
});
