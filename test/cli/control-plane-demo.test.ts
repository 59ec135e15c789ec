/* `gw control-plane demo`: a control plane and two gateways that really enrol, in one process (decision 13.6). */
import t from 'tap';
import { FLEET_STEPS } from '../../src/cli/control-plane-demo/fleet-steps.ts';
import { eventually, launch, run } from '../support/child.ts';
import { MAIN } from '../support/gateway-process.ts';

t.test('the demo goes through all of its steps on both gateways, and ends', async (t) => {
  const { code, stdout, stderr } = await run(t, process.execPath, [MAIN, 'control-plane', 'demo', '--check', '--json'], {
    timeoutMs: 600_000,
  });
  t.equal(code, 0, stderr);
  const { steps } = JSON.parse(stdout) as { steps: { step: string; gateway: string }[] };
  t.same(
    steps.map(({ step, gateway }) => [step, gateway]),
    FLEET_STEPS.flatMap(({ title }) => ['gateway-self-hosted', 'gateway-managed'].map((gateway) => [title, gateway])),
  );
});

t.test('without --check it stays, says what to try with real values, and ends at SIGTERM', async (t) => {
  const child = launch(t, process.execPath, [MAIN, 'control-plane', 'demo'], { timeoutMs: 600_000 });
  const token = await eventually('the text', () => /^export CP_ADMIN_TOKEN=(\S+) CP_HTTP_PORT=\d+$/m.exec(child.stdout)?.[1]);
  const url = /^A control plane at (\S+),/m.exec(child.stdout)?.[1];
  const answer = await fetch(`${url}/v1/orgs/acme/nodes`, { headers: { 'CP-Admin-Token': token } });
  t.match(await answer.json(), { data: [{ node_id: 'gateway-managed' }, { node_id: 'gateway-self-hosted' }] });
  child.kill('SIGTERM');
  t.equal((await child.ended).code, 0);
});
