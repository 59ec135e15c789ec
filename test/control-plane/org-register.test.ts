import { join } from 'node:path';
import t from 'tap';
import { silentLogger } from '../../src/base/lib/log.ts';
import { OrgRegister } from '../../src/control-plane/state/org-register.ts';
import { OrgVersions } from '../../src/control-plane/state/org-versions.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { tempDir } from '../support/temp-dir.ts';

t.test('an org that an earlier version has stored is read with the tiers of today, and with what it did not know', async (t) => {
  const clock = fakeClock();
  const store = await openEmbeddedStore({ dir: join(tempDir(t), 'store'), fsync: 'off', clock, log: silentLogger });
  t.teardown(() => store.close());
  const stored = {
    status: 'active',
    cp_down_policy: 'strict',
    redis_down_policy: 'deny',
    grace_seconds: 7,
    created_at: '',
    updated_at: '',
  };
  const tiers = { a: 'community', b: 'professional', c: 'enterprise', d: 'gold' };
  for (const [key, tier] of Object.entries(tiers))
    await store.commit(undefined, [{ op: 'put', space: 'cp_org', key, value: { ...stored, org_id: key, plan_tier: tier } }]);
  const register = await OrgRegister.open(store, clock, await OrgVersions.open(store, clock));
  t.match(
    register.orgs.list().map(({ plan_tier: tier }) => tier),
    ['starter', 'pro', 'enterprise', 'starter'],
    'one that nobody knows includes least',
  );
  t.match(register.find('a'), { gateway_writes: 'allow', monthly_request_limit: null, overage_enabled: false, cp_down_policy: 'strict' });
  const commit = (_object: string | undefined, ...rest: [Parameters<typeof store.commit>[1], Parameters<typeof store.commit>[2]?]) =>
    store.commit(undefined, ...rest);
  t.match(await register.orgs.put('b', { grace_seconds: 9 }, commit), { plan_tier: 'pro', grace_seconds: 9 }, 'a change keeps it');
});
