// Bundles that a gateway must not take (decision 13.9). A file of its own: a gateway waits longer after each one in a row.
import { generateKeyPairSync } from 'node:crypto';
import t from 'tap';
import { eventually } from '../support/child.ts';
import { remoteBundle } from '../support/control-plane-place.ts';
import { startGatewayWith } from '../support/gateway-process.ts';
import { environmentFor, RECONNECT_MS, says, serves } from '../support/lied-to-gateway.ts';
import { LyingControlPlane } from '../support/lying-control-plane.ts';
import { callThrough } from '../support/place-calls.ts';
import { becomes, healthOf } from '../support/said-health.ts';

t.test('bundles that are not signed for this org, or are older, change nothing; it is logged, counted and shown', async (t) => {
  const plane = await LyingControlPlane.start(t);
  plane.bundle = plane.signed(remoteBundle('true-one', 'gpt-4o-mini'), 5);
  const gateway = await startGatewayWith(t, await environmentFor(t, plane));
  await becomes(gateway, { cp_status: 'connected', bundle_id: 'true-one' }, RECONNECT_MS);
  const lie = remoteBundle('a-lie', 'gpt-4o');
  const stranger = generateKeyPairSync('ed25519').privateKey;
  const lies = {
    'another key': plane.signed(lie, 6, stranger),
    'a key that is not known': plane.signed(lie, 6, stranger, 'bundle-9'),
    'other bytes': { ...plane.signed(remoteBundle('true-one', 'gpt-4o-mini'), 6), bundle_yaml: Buffer.from(lie) },
    'an older sequence': plane.signed(lie, 4),
    'another org': { ...plane.signed(lie, 6), org_id: 'globex' },
    'no bundle inside': plane.signed('bundle_id: [', 6),
  };
  for (const [name, bundle] of Object.entries(lies)) {
    plane.bundle = bundle;
    const before = plane.calls.filter((call) => call === 'FetchBundle').length;
    plane.changed('policy');
    await eventually(`${name} is fetched`, async () => {
      await callThrough(t, gateway, 'structured API');
      return plane.calls.filter((call) => call === 'FetchBundle').length > before ? true : undefined;
    });
    await serves(t, gateway);
    t.match(await healthOf(gateway), { bundle_id: 'true-one' }, name);
    t.equal((await callThrough(t, gateway, 'structured API', { model: 'gpt-4o' })).status, 403, name);
  }
  await says(gateway, /signature/i);
  await says(gateway, /sequence/i);
  plane.bundle = plane.signed(remoteBundle('next-one', 'gpt-4o-mini'), 6);
  plane.changed('policy');
  await eventually('the next true one', async () => {
    await serves(t, gateway);
    return (await healthOf(gateway))['bundle_id'] === 'next-one' ? true : undefined;
  });

  gateway.child.kill('SIGKILL');
  await gateway.child.ended;
  plane.bundle = plane.signed(remoteBundle('a-lie', 'gpt-4o'), 5);
  plane.changed('policy');
  const again = await startGatewayWith(t, gateway.env);
  await eventually('the older one is fetched', async () => {
    await serves(t, again);
    return plane.calls.at(-1) === 'FetchBundle' || (await healthOf(again))['cp_status'] === 'connected' ? true : undefined;
  });
  t.match(await healthOf(again), { bundle_id: 'next-one' }, 'the highest sequence is remembered over a start');
});
