// Bundles that a gateway must not take (decision 13.9). A true one follows each: after several bad ones in a row a
// gateway waits for up to a minute.
import { generateKeyPairSync } from 'node:crypto';
import t from 'tap';
import type { SignedBundle } from '../../src/control-plane/proto/messages.ts';
import { eventually } from '../support/child.ts';
import { remoteBundle } from '../support/control-plane-place.ts';
import { startGatewayWith } from '../support/gateway-process.ts';
import { environmentFor, RECONNECT_MS, says, serves } from '../support/lied-to-gateway.ts';
import { LyingControlPlane } from '../support/lying-control-plane.ts';
import { callThrough } from '../support/place-calls.ts';
import { becomes, healthOf } from '../support/said-health.ts';

t.test('bundles that are not signed for this org, or are older, change nothing; it is logged, counted and shown', async (t) => {
  const plane = await LyingControlPlane.start(t);
  const signedTrue = (sequence: number) => plane.signed(remoteBundle(`true-${sequence}`, 'gpt-4o-mini'), sequence);
  let sequence = 5;
  plane.bundle = signedTrue(sequence);
  const gateway = await startGatewayWith(t, await environmentFor(t, plane));
  await becomes(gateway, { cp_status: 'connected', bundle_id: 'true-5' }, RECONNECT_MS);
  const lie = remoteBundle('a-lie', 'gpt-4o');
  const stranger = generateKeyPairSync('ed25519').privateKey;
  const lies: Readonly<Record<string, (next: number) => SignedBundle>> = {
    'another key': (next) => plane.signed(lie, next, stranger),
    'a key that is not known': (next) => plane.signed(lie, next, stranger, 'bundle-9'),
    'other bytes': (next) => ({ ...signedTrue(next), bundle_yaml: Buffer.from(lie) }),
    'an older sequence': (next) => plane.signed(lie, next - 2),
    'another org': (next) => ({ ...plane.signed(lie, next), org_id: 'globex' }),
    'no bundle inside': (next) => plane.signed('bundle_id: [', next),
  };
  for (const [name, told] of Object.entries(lies)) {
    plane.bundle = told(sequence + 1);
    const before = plane.calls.filter((call) => call === 'FetchBundle').length;
    plane.changed('policy');
    await eventually(`${name} is fetched`, async () => {
      await callThrough(t, gateway, 'structured API');
      return plane.calls.filter((call) => call === 'FetchBundle').length > before ? true : undefined;
    });
    await serves(t, gateway);
    t.match(await healthOf(gateway), { bundle_id: `true-${sequence}` }, name);
    t.equal((await callThrough(t, gateway, 'structured API', { model: 'gpt-4o' })).status, 403, name);
    sequence += 1;
    plane.bundle = signedTrue(sequence);
    plane.changed('policy');
    await eventually(`the true one after ${name}`, async () => {
      await serves(t, gateway);
      return (await healthOf(gateway))['bundle_id'] === `true-${sequence}` ? true : undefined;
    });
  }
  await says(gateway, /signature/i);
  await says(gateway, /sequence/i);

  gateway.child.kill('SIGKILL');
  await gateway.child.ended;
  plane.bundle = plane.signed(lie, 5);
  plane.changed('policy');
  const again = await startGatewayWith(t, gateway.env);
  await eventually('the older one is fetched', async () => {
    await serves(t, again);
    return plane.calls.at(-1) === 'FetchBundle' || (await healthOf(again))['cp_status'] === 'connected' ? true : undefined;
  });
  t.match(await healthOf(again), { bundle_id: `true-${sequence}` }, 'the highest sequence is remembered over a start');
});
