// Models that were called and have no price, as the operator is shown them.
import t from 'tap';
import { EventBus } from '../../../src/base/events/bus.ts';
import { silentLogger } from '../../../src/base/lib/log.ts';
import type { ExecutionRecord } from '../../../src/base/model/execution-record.ts';
import { UnpricedModels } from '../../../src/services/prices/unpriced-models.ts';
import { fakeClock } from '../../support/fake-clock.ts';

t.test('they are counted by provider and name, the newest hundred are kept, and long names are cut', (t) => {
  const events = new EventBus(silentLogger);
  const clock = fakeClock();
  const unpriced = new UnpricedModels({ clock, events });
  const called = (metering: object | undefined, provider = 'openai'): void =>
    events.emit('execution', { record: { provider, model: 'asked', metering } as unknown as ExecutionRecord, durationMs: 1 });
  called(undefined);
  called({ rate_source: 'catalogue', model: 'known' });
  called({ rate_source: 'override', model: 'known' });
  t.same(unpriced.list(), []);
  called({ rate_source: 'default', model: 'a' });
  clock.advance(1_000);
  called({ rate_source: 'default', model: 'a' });
  called({ rate_source: 'default', model: 'a' }, 'mistral');
  called({ rate_source: 'default' });
  called({
    rate_source: 'default',
    model: 'whole',
    passes: [
      { rate_source: 'catalogue', model: 'known' },
      { rate_source: 'default', model: 'inner' },
      { rate_source: 'default', model: 'inner' },
    ],
  });
  const found = unpriced.list();
  t.match(found[0], { provider: 'openai', model: 'a', calls: 2, last_at: '2026-11-21T12:00:01.000Z' });
  t.same(found.map(({ provider, model, calls }) => `${provider} ${model} ${calls}`).sort(), [
    'mistral a 1',
    'openai a 2',
    'openai asked 1',
    'openai inner 1',
  ]);
  for (let at = 0; at < 150; at++) called({ rate_source: 'default', model: `${'x'.repeat(100)}-${at}` }, `p-${at}`);
  t.equal(unpriced.list().length, 100);
  for (const { model } of unpriced.list()) t.ok(model.length <= 61);
  unpriced.close();
  called({ rate_source: 'default', model: 'behind' }, 'late');
  t.notOk(unpriced.list().some(({ provider }) => provider === 'late'));
  t.end();
});
