// What a gateway makes of the answers of a control plane to what is handed on to it; and overlays that it does not
// take.
import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import t from 'tap';
import { canonicalJson } from '../../src/base/json/jcs.ts';
import { sha256Hex } from '../../src/base/lib/sha256.ts';
import type { OrgState, SignedOverlay, WriteRequest, WriteResponse } from '../../src/control-plane/proto/messages.ts';
import { ProtocolError, type ProtocolFault } from '../../src/control-plane/proto/protocol-error.ts';
import type { FetchedVersions } from '../../src/link/fetched-versions.ts';
import { HandedOnWrites } from '../../src/link/handed-on-writes.ts';
import type { Channel, RemoteName } from '../../src/link/link-ports.ts';
import type { RemoteKeys } from '../../src/link/remote-keys.ts';
import { RemoteOverlays } from '../../src/link/remote-overlays.ts';
import type { OrgOverlay } from '../../src/services/policy/org-overlays.ts';
import { type FakeClock, fakeClock } from '../support/fake-clock.ts';
import { orgSaid } from '../support/org-said.ts';

const ASKING = { principal: { kind: 'management_key', id: 'k-1' }, operation: 'workloads.put', from: '10.0.0.1' } as const;
const WRITE = { kind: 'workloads.put', entries: [{ id: 'w', body: { name: 'W' }, secret: undefined }] } as const;

function place(answer: () => Promise<Partial<WriteResponse>>, org: OrgState | undefined = orgSaid(), clock = fakeClock()) {
  const asked: WriteRequest[] = [];
  const brought: RemoteName[] = [];
  const call = async (_name: string, request: unknown) => {
    asked.push(request as WriteRequest);
    return { org: null, results: [], error: '', ...(await answer()) };
  };
  const writes = new HandedOnWrites({
    channel: { call } as unknown as Channel,
    contact: { org },
    bringIn: (names) => Promise.resolve(brought.push(...names)).then(() => []),
    clock,
  });
  return { writes, asked, brought };
}

/** Lets time pass until it is settled. */
async function passing(clock: FakeClock, what: Promise<unknown>): Promise<void> {
  let over = false;
  void what.finally(() => {
    over = true;
  });
  for (; !over; await new Promise(setImmediate)) if (clock.pending > 0) clock.advance(100);
}

t.test('a write goes with who has written it, and what it changed is fetched before it is answered', async (t) => {
  const { writes, asked, brought } = place(() => Promise.resolve({ results: ['{"workload_id":"w"}'] }));
  t.same(await writes.write(ASKING, { ...WRITE, only: 'create' }), [{ workload_id: 'w' }]);
  t.same(asked, [
    {
      kind: 'workloads.put',
      entries: [{ id: 'w', body: '{"name":"W"}', secret: '' }],
      principal_kind: 'management_key',
      principal_id: 'k-1',
      operation: 'workloads.put',
      from: '10.0.0.1',
      only: 'create',
    },
  ]);
  t.same(brought, ['workloads']);
});

t.test('a refusal is told as it was said, and nothing is fetched', async (t) => {
  const error = JSON.stringify({ code: 'invalid_policy', message: 'no', details: [{ path: 'a', message: 'b', line: 3 }, 7] });
  const { writes, brought } = place(() => Promise.resolve({ error }));
  await t.rejects(writes.write(ASKING, WRITE), { code: 'invalid_policy', message: 'no', details: [{ path: 'a', message: 'b', line: 3 }] });
  t.same(brought, []);
  for (const strange of ['not JSON', '{"code":"a code that nobody knows","message":"x"}'])
    await t.rejects(place(() => Promise.resolve({ error: strange })).writes.write(ASKING, WRITE), { code: 'invalid_request' }, strange);
});

t.test('a write waits while the control plane asks for patience, and is given back after five seconds', async (t) => {
  const clock = fakeClock();
  const busy = () => Promise.reject(new ProtocolError('RESOURCE_EXHAUSTED', 'too many', { retryAfterMs: 60 }));
  let refusals = 3;
  const soon = place(() => (refusals-- > 0 ? busy() : Promise.resolve({ results: ['{"workload_id":"w"}'] })), orgSaid(), clock);
  const stored = soon.writes.write(ASKING, WRITE);
  await passing(clock, stored);
  t.same(await stored, [{ workload_id: 'w' }]);
  t.equal(soon.asked.length, 4);
  t.equal(clock.monotonic(), 300, 'a tenth of a second at least each time');
  const never = place(busy, orgSaid(), clock);
  const refused = never.writes.write(ASKING, WRITE).catch((error: unknown) => error);
  await passing(clock, refused);
  t.match(await refused, { code: 'control_plane_unreachable', message: /try again in some seconds/ });
  t.equal(never.asked.length, 51);
  const long = place(() => Promise.reject(new ProtocolError('RESOURCE_EXHAUSTED', 'x', { retryAfterMs: 5_001 })), orgSaid(), clock);
  await t.rejects(long.writes.write(ASKING, WRITE), { code: 'control_plane_unreachable' }, 'what would take longer is told at once');
});

t.test('what keeps a write from being answered', async (t) => {
  const failing = (fault: ProtocolFault) => () => Promise.reject(new ProtocolError(fault, 'because'));
  const codeOf = async (fault: ProtocolFault, org?: OrgState): Promise<string> =>
    place(failing(fault), org)
      .writes.write(ASKING, WRITE)
      .then(
        () => 'stored',
        ({ code, message }: { code: string; message: string }) => `${code} ${message.includes('not known') ? '?' : ''}`.trim(),
      );
  t.equal(await codeOf('UNAVAILABLE'), 'control_plane_unreachable');
  t.equal(await codeOf('PERMISSION_DENIED'), 'control_plane_unreachable', 'a node that was revoked is as one without contact');
  t.equal(await codeOf('DEADLINE_EXCEEDED'), 'control_plane_unreachable ?');
  t.equal(await codeOf('INTERNAL'), 'control_plane_unreachable ?');
  t.equal(await codeOf('INVALID_ARGUMENT'), 'invalid_request');
  t.equal(await codeOf('RESOURCE_EXHAUSTED'), 'body_too_large');
  t.equal(await codeOf('UNAVAILABLE', orgSaid({ gateway_writes: 'deny' })), 'managed_remotely', 'as it was last heard');
  const old = place(() => Promise.resolve({}), orgSaid({ gateway_writes: '' }));
  await t.rejects(old.writes.write(ASKING, WRITE), { code: 'managed_remotely' });
  t.same(old.asked, [], 'one of before there were writes is not asked');
});

t.test('overlays are taken as a set when each is signed by a key for bundles, of this org and as it stands', async (t) => {
  const pair = generateKeyPairSync('ed25519');
  const signed = (change: Partial<SignedOverlay> = {}, orgId = 'acme', key: KeyObject = pair.privateKey): SignedOverlay => {
    const overlay = { level: 'org', node_id: '', bundle_yaml: Buffer.from('a: 1'), put_at: '2026-01-01T00:00:00.000Z', kid: 'k' };
    const { level, node_id, bundle_yaml, put_at } = overlay;
    const text = canonicalJson({ schema: 'gw.signed_overlay.v1', org_id: orgId, level, node_id, put_at, sha256: sha256Hex(bundle_yaml) });
    return { ...overlay, signature: sign(undefined, Buffer.from(text), key), ...change };
  };
  const fetched = async (overlays: readonly SignedOverlay[]): Promise<readonly OrgOverlay[] | string> => {
    let taken: readonly OrgOverlay[] | undefined;
    const resource = new RemoteOverlays({
      store: { commit: () => Promise.resolve() },
      orgId: 'acme',
      versions: {
        get: () => '',
        effect: () => ({ op: 'delete', space: 's', key: 'k' }),
        took: () => undefined,
      } as unknown as FetchedVersions,
      policies: {
        replaceOverlays: (_org, given) => {
          taken = given;
          return Promise.resolve();
        },
      },
      keys: {
        find: (_use: string, kid: string) => (kid === 'k' ? pair.publicKey : undefined),
        fetch: () => Promise.resolve(),
      } as unknown as RemoteKeys,
    });
    const channel = { call: () => Promise.resolve({ org: null, version: '1', overlays }) } as unknown as Channel;
    try {
      await resource.fetch(channel);
      return taken ?? 'nothing';
    } catch (error) {
      return taken === undefined ? String(error) : 'taken all the same';
    }
  };
  t.same(await fetched([signed()]), [{ org_id: 'acme', level: 'org', bundle_yaml: 'a: 1', put_at: Date.UTC(2026, 0, 1) }]);
  t.same(await fetched([]), []);
  for (const [what, bad] of Object.entries({
    'another text': signed({ bundle_yaml: Buffer.from('a: 2') }),
    'another level': signed({ level: 'node', node_id: 'n' }),
    'another time': signed({ put_at: '2027-01-01T00:00:00.000Z' }),
    'another org': signed({}, 'globex'),
    'another signer': signed({}, 'acme', generateKeyPairSync('ed25519').privateKey),
  }))
    t.match(await fetched([signed(), bad]), /signature does not hold/, what);
  t.match(await fetched([signed({ kid: 'other' })]), /a key that the control plane does not list for bundles/);
});
