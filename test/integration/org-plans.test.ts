// The monthly request limit of each org of a free gateway (decision 13.14).
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { TestGateway } from '../support/gateway.ts';
import { ALLOW_ALL, startGoverned } from '../support/governed.ts';
import { linked } from '../support/linked-gateway.ts';
import { tempDir } from '../support/temp-dir.ts';

const PLANS = '/v1/admin/org-plans';
const put = (gw: TestGateway, org: string, plan: object) => gw.admin('PUT', `${PLANS}/${org}`, plan);

t.test('each org has its own limit, or that of the settings, from its next request on and over a restart', async (t) => {
  const env = { GW_MONTHLY_REQUEST_LIMIT: '2' };
  const one = await startGoverned(t, { bundle: ALLOW_ALL, env });
  const askedOf = async ({ execute }: typeof one, org: string): Promise<unknown> => {
    const { status, body } = await execute({ org_id: org });
    return status === 200 ? 'allow' : body['reason'];
  };
  const asked = (org: string) => askedOf(one, org);
  const over = 'monthly_request_limit_exceeded';
  t.match(await put(one.gw, 'small', { monthly_request_limit: 1 }), { status: 200, body: { org_id: 'small', monthly_request_limit: 1 } });
  t.same([await asked('small'), await asked('small')], ['allow', over]);
  t.same([await asked('usual'), await asked('usual'), await asked('usual')], ['allow', 'allow', over]);
  t.equal((await put(one.gw, 'usual', { monthly_request_limit: null })).status, 200);
  t.equal(await asked('usual'), 'allow', 'null: as many as it likes');
  t.match((await put(one.gw, 'small', { overage_enabled: true })).body, { monthly_request_limit: 1, overage_enabled: true });
  t.equal(await asked('small'), 'allow', 'what is left out stays, and it may be passed');
  t.equal((await put(one.gw, 'none', { monthly_request_limit: 0 })).status, 200);
  t.equal(await asked('none'), over);
  t.match((await one.gw.admin('GET', PLANS)).body, { org_plans: [{ org_id: 'none' }, { org_id: 'small' }, { org_id: 'usual' }] });
  t.match((await one.gw.admin('GET', '/v1/admin/audit?limit=1')).body, {
    items: [{ operation: 'org_plans.put', object: 'none', org_id: 'none' }],
  });
  await one.gw.gateway.stop();

  const again = await startGoverned(t, { bundle: ALLOW_ALL, env: { ...env, GW_DATA_DIR: one.gw.dataDir } });
  t.equal(await askedOf(again, 'none'), over);
  t.equal((await again.gw.admin('DELETE', `${PLANS}/none`)).status, 200);
  t.equal((await again.gw.admin('DELETE', `${PLANS}/none`)).status, 404);
  t.same([await askedOf(again, 'none'), await askedOf(again, 'small')], ['allow', 'allow']);
});

t.test('what is no plan is refused, and changes nothing', async (t) => {
  const { gw } = await startGoverned(t, { bundle: ALLOW_ALL });
  for (const bad of [
    { monthly_request_limit: -1 },
    { monthly_request_limit: 1.5 },
    { monthly_request_limit: '5' },
    { overage_enabled: 'yes' },
    { limit: 1 },
  ])
    t.match(await put(gw, 'acme', bad), { status: 400, body: { error: { code: 'invalid_request' } } }, JSON.stringify(bad));
  t.same((await gw.admin('GET', PLANS)).body, { org_plans: [] });
});

t.test('a plan that was put before there was a control plane counts only without one', async (t) => {
  const { start, putBundle } = await linked(t);
  await putBundle(ALLOW_ALL);
  const policies = tempDir(t);
  writeFileSync(join(policies, 'bundle.yaml'), ALLOW_ALL);
  const withoutPlane = { GW_CP_ADDR: '', GW_BOOTSTRAP_TOKEN: '', GW_POLICIES_DIR: policies };
  const free = await start(withoutPlane);
  t.equal((await put(free.gw, 'acme', { monthly_request_limit: 0 })).status, 200);
  t.equal((await free.execute({ org_id: 'acme' })).status, 403);
  await free.gw.gateway.stop();

  const governed = await start();
  t.equal((await governed.gw.admin('DELETE', `${PLANS}/acme`)).status, 409, 'nobody could take it away');
  t.equal((await governed.execute({ org_id: 'acme' })).status, 200, 'the control plane sets no limit, and the settings have none');
  await governed.gw.gateway.stop();

  const again = await start(withoutPlane);
  t.equal((await again.execute({ org_id: 'acme' })).status, 403);
});
