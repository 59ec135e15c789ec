// What people register at the control plane, as a gateway has it: a whole set or nothing of it, in force at once, and
// there after a restart.
import t from 'tap';
import { type RemoteRegisters, remoteRegisters } from '../../src/app/remote-registers.ts';
import { loadCatalogue } from '../../src/base/catalogue/catalogue.ts';
import { CatalogueInForce } from '../../src/base/catalogue/catalogue-in-force.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import { SecretBox } from '../../src/base/lib/secret-box.ts';
import { ChannelTelemetry } from '../../src/link/channel-telemetry.ts';
import type { Channel, ControlPlaneLink, RemoteName } from '../../src/link/link-ports.ts';
import { ApiKeyService } from '../../src/services/people/api-keys.ts';
import { CredentialService } from '../../src/services/people/credentials.ts';
import { WorkloadService } from '../../src/services/people/workloads.ts';
import { CustomConnectorService } from '../../src/services/policy/custom-connectors.ts';
import { ExportService, inheritanceOf } from '../../src/services/sending/exports/export-service.ts';
import { Outbox } from '../../src/services/sending/outbox.ts';
import { PROTOCOL, runControlPlane, TIMEOUT_MS } from '../support/control-plane.ts';
import { type Place, somePlace } from '../support/policies-place.ts';
import type { HasTeardown } from '../support/temp-dir.ts';

const CONFIG = { cpAddr: { host: 'cp.example.com', port: 7443 }, orgId: 'acme', nodeId: 'node-1' };
const SECRET = 'sk-planted-000000000000000000';
const OPENAI = { connector_id: 'openai', mode: 'alias', secret_ref: SECRET };

/** The services of a gateway with a control plane, on a store that may have been used before. */
async function gateway(t: HasTeardown, place: Place) {
  place.write(
    'bundle.yaml',
    '{schema: gw.policy_bundle.v1, bundle_id: base, version: "1", inline_rules: {identity: [{id: anyone, effect: {decision: allow}}]}}',
  );
  const { store, clock, options } = place;
  const { events } = options;
  const log = silentLogger;
  const box = new SecretBox([Buffer.alloc(32, 1)]);
  const catalogues = new CatalogueInForce(loadCatalogue());
  const nobody = () => Promise.reject(new Error('nothing is sent'));
  const outbox = await Outbox.open({ store, clock, log, writer: 'node-1' });
  const inherits = await inheritanceOf(store, CONFIG.nodeId);
  const door = { post: nobody, connect: nobody, datagrams: nobody };
  const exports = await ExportService.open({
    store,
    clock,
    log,
    box,
    outbox,
    events,
    door,
    mayBePlain: () => false,
    nodeId: 'node-1',
    inherits,
    configured: [],
  });
  const credentials = await CredentialService.open({ store, box, clock, log, nodeId: 'node-1', environment: () => undefined });
  const services = {
    exports,
    credentials,
    policies: await place.open(),
    workloads: await WorkloadService.open(store),
    apiKeys: await ApiKeyService.open({ store, clock, events, remote: { from: 'acme@cp.example.com:7443', log } }),
    customConnectors: await CustomConnectorService.open({
      store,
      clock,
      log,
      catalogues,
      egressAllow: { hosts: new Set(), ranges: { has: () => false } } as never,
      isDenied: () => false,
      hasCredential: () => false,
    }),
  };
  const throughChannel = new ChannelTelemetry();
  const remote = await remoteRegisters(CONFIG, { store, catalogues, waysOut: { throughChannel } }, services);
  t.teardown(async () => {
    await exports.close();
    await outbox.close();
  });
  if (remote === undefined) throw new Error('there is a control plane');
  return { ...services, remote, throughChannel };
}

function fetchOf({ resources }: RemoteRegisters, name: RemoteName, channel: Channel): Promise<void> {
  return resourceOf({ resources }, name).fetch(channel);
}

function resourceOf({ resources }: Pick<RemoteRegisters, 'resources'>, name: RemoteName) {
  const found = resources.find((one) => one.name === name);
  if (found === undefined) throw new Error(`no resource ${name}`);
  return found;
}

/** A control plane that is real, and a node of `acme` with a channel to it. */
async function connected(t: HasTeardown) {
  const running = await runControlPlane(t);
  const { client } = await running.enrol('acme', 'node-1');
  const channel: Channel = {
    call: (name, request) => client.call(PROTOCOL.controlPlane, name, request as never, TIMEOUT_MS),
    updates: (request, signal) => client.stream(PROTOCOL.controlPlane, 'StreamUpdates', request, signal),
  };
  const { entities, assignments, apiKeys } = running.plane.state;
  const put = (kind: Parameters<typeof entities.put>[1], id: string, body: Record<string, unknown>) =>
    entities.put('acme', kind, id, body, running.commit);
  return { ...running, channel, put, entities, assignments, apiKeys };
}

/** Answers with these pages, whatever is asked. */
function saying(...answers: readonly object[]): Channel {
  let at = 0;
  const call = () => Promise.resolve(answers[Math.min(at++, answers.length - 1)]);
  return { call, updates: () => Promise.reject(new Error('no')) } as never;
}

t.test('workloads are exactly what the control plane says, beside the seeded one, and tokens stay with those that stay', async (t) => {
  const { channel, put, entities, commit } = await connected(t);
  const place = await somePlace(t);
  const { workloads, remote } = await gateway(t, place);
  await workloads.put({ workload_id: 'local', name: 'made here' });
  await put('workloads', 'batch', { name: 'Batch', allowed_connection_types: ['connect_proxy'] });
  await put('workloads', 'web', {});
  await fetchOf(remote, 'workloads', channel);
  const ids = () => workloads.list().map(({ workload_id: id }) => id);
  t.same(ids(), ['batch', 'default', 'web']);
  t.match(workloads.get('acme', 'batch'), { org_id: 'acme', name: 'Batch', allowed_connection_types: ['connect_proxy'] });
  t.equal(workloads.get('other', 'batch'), undefined);
  const token = await workloads.issueToken({ workload_id: 'batch', org_id: 'acme' });
  const webToken = await workloads.issueToken({ workload_id: 'web', org_id: 'acme' });
  const version = resourceOf(remote, 'workloads').version();
  t.not(version, '');
  await put('workloads', 'batch', { name: 'Another' });
  await entities.remove('acme', 'workloads', 'web', commit);
  await fetchOf(remote, 'workloads', channel);
  t.same(ids(), ['batch', 'default']);
  t.not(resourceOf(remote, 'workloads').version(), version);
  t.equal(workloads.holderOf(token ?? '')?.workload_id, 'batch');
  t.equal(workloads.holderOf(webToken ?? ''), undefined, 'gone with its workload');
  const again = await gateway(t, place);
  t.same(again.workloads.list(), workloads.list());
  t.equal(resourceOf(again.remote, 'workloads').version(), resourceOf(remote, 'workloads').version());
});

t.test('one entry that is wrong, and nothing of that fetch is taken', async (t) => {
  const place = await somePlace(t);
  const { workloads, credentials, exports, remote } = await gateway(t, place);
  const good = JSON.stringify({ workload_id: 'good' });
  const page = (...texts: string[]) => saying({ version: '1', workloads: texts, next_cursor: '' });
  await t.rejects(fetchOf(remote, 'workloads', page(good, '{"workload_id":"bad one","name":7}')), {
    message: /^the workload "bad one" of the control plane is refused.*workload_id must be.*name must be/,
  });
  await t.rejects(fetchOf(remote, 'workloads', page(good, good)), /"good".*twice/);
  await t.rejects(fetchOf(remote, 'workloads', page(good, '{')), /a workload of the control plane is no JSON/);
  await t.rejects(fetchOf(remote, 'workloads', page('{"workload_id":"x","org_id":"other"}')), /"x".*org_id must be acme/);
  t.same(
    workloads.list().map(({ workload_id: id }) => id),
    ['default'],
  );
  const credential = (body: object, secret = SECRET) =>
    saying({ version: '1', credentials: [{ credential: JSON.stringify(body), secret }], next_cursor: '' });
  const body = { credential_id: 'c', connector_id: 'openai', mode: 'alias' };
  await t.rejects(fetchOf(remote, 'credentials', credential({ ...body, type: 'export_auth' })), /"c".*type is export_auth/);
  await t.rejects(fetchOf(remote, 'credentials', credential(body, '')), /"c".*secret_ref is needed for an alias/);
  const refused = await fetchOf(remote, 'credentials', credential({ ...body, connector_id: 'nobody' })).catch((error: unknown) =>
    String(error),
  );
  t.match(refused, /connector_id must be a connector/);
  t.notMatch(refused, SECRET);
  t.same(credentials.list(), []);
  const exported = { id: 'd', name: 'SIEM', kind: 'webhook', config: { url: 'http://siem.example.com/' } };
  const destination = (one: object) =>
    saying({ version: '1', destinations: [JSON.stringify(one)], inherit_org_defaults: false, next_cursor: '' });
  await t.rejects(fetchOf(remote, 'export_config', destination(exported)), /"d".*config\.url/);
  await t.rejects(
    fetchOf(remote, 'export_config', destination({ ...exported, id: 'setting-webhook', config: { url: 'https://siem.example.com/' } })),
    /a setting names/,
  );
  t.same(exports.destinations.list('acme'), []);
  t.equal(await inheritanceOf(place.store, 'node-1'), true);
  t.same(
    remote.resources.map((one) => one.version()),
    ['', '', '', ''],
  );
});

t.test('a set comes in pages of one version, and is bounded', async (t) => {
  const { workloads, remote } = await gateway(t, await somePlace(t));
  const page = (version: string, id: string, next: string) => ({
    version,
    workloads: [JSON.stringify({ workload_id: id })],
    next_cursor: next,
  });
  await fetchOf(remote, 'workloads', saying(page('1', 'a', 'a'), page('2', 'b', ''), page('2', 'a', 'a'), page('2', 'b', '')));
  t.same(
    workloads.list().map(({ workload_id: id }) => id),
    ['a', 'b', 'default'],
  );
  t.equal(resourceOf(remote, 'workloads').version(), '2');
  await t.rejects(fetchOf(remote, 'workloads', saying({ version: '3', workloads: [], next_cursor: 'x' })), /no end after 1000 pages/);
  const many = Array.from({ length: 10_001 }, (_, i) => JSON.stringify({ workload_id: `w${i}` }));
  await t.rejects(fetchOf(remote, 'workloads', saying({ version: '3', workloads: many, next_cursor: '' })), /more than 10000 workloads/);
  t.equal(resourceOf(remote, 'workloads').version(), '2');
});

t.test(
  'credentials of the org and of this node are here with the rules that allow their providers, sealed, and others are not',
  async (t) => {
    const { channel, put, entities, assignments, commit } = await connected(t);
    const place = await somePlace(t);
    const { credentials, policies, remote } = await gateway(t, place);
    await credentials.put({ credential_id: 'local', connector_id: 'mistral', mode: 'alias', secret_ref: 'made-here' });
    await put('credentials', 'wide', OPENAI);
    await put('credentials', 'mine', { ...OPENAI, connector_id: 'anthropic', distribution: 'node_scoped' });
    await put('credentials', 'other', { ...OPENAI, connector_id: 'gemini', distribution: 'node_scoped' });
    await put('credentials', 'siem', { ...OPENAI, type: 'export_auth' });
    await assignments.set('acme', 'mine', 'node-1', true, commit);
    await assignments.set('acme', 'other', 'node-2', true, commit);
    await fetchOf(remote, 'credentials', channel);
    t.same(
      credentials.list().map(({ credential_id: id }) => id),
      ['mine', 'wide'],
    );
    t.equal(credentials.secretOf('acme', 'wide'), SECRET);
    t.same(
      credentials.usable('acme', 'anthropic').map(({ credential_id: id }) => id),
      ['mine'],
      'for calls from now on',
    );
    t.same(credentials.usable('other', 'openai'), []);
    t.notMatch(JSON.stringify(await place.store.list('credential')), SECRET);
    const rules = () =>
      policies
        .current('acme')
        .policy.layers.flatMap(({ name, rules: of }) => of.map(({ id }) => `${name} ${id}`))
        .filter((rule) => rule.includes(' auto.'));
    const allowing = (...providers: string[]) =>
      ['connectors', 'credentials'].flatMap((layer) => providers.map((id) => `${layer} auto.allow.${id}`));
    t.same(rules(), allowing('anthropic', 'openai'));
    t.match(policies.autoRules('acme'), /auto\.allow\.openai/);
    t.equal(
      policies.current('other').policy.layers.some(({ rules: of }) => of.some(({ id }) => id.startsWith('auto.'))),
      false,
    );
    const before = credentials.get('acme', 'wide');
    await assignments.set('acme', 'mine', 'node-1', false, commit);
    await fetchOf(remote, 'credentials', channel);
    t.same(rules(), allowing('openai'), 'gone with the credential');
    t.same(credentials.get('acme', 'wide'), before, 'what is as it was is not written anew');
    const again = await gateway(t, place);
    t.equal(again.credentials.secretOf('acme', 'wide'), SECRET, 'over a restart');
    t.match(again.policies.autoRules('acme'), /auto\.allow\.openai/);
    await entities.remove('acme', 'credentials', 'wide', commit);
    await fetchOf(remote, 'credentials', channel);
    t.same([credentials.list(), rules(), policies.autoRules('acme')], [[], [], undefined]);
  },
);

t.test('credentials and their rules are stored together or not at all', async (t) => {
  const place = await somePlace(t);
  const { credentials, policies, remote } = await gateway(t, place);
  const resource = resourceOf(remote, 'credentials');
  const one = JSON.stringify({ credential_id: 'c', connector_id: 'openai', mode: 'alias' });
  const channel = saying({ version: '1', credentials: [{ credential: one, secret: SECRET }], next_cursor: '' });
  const { commit } = place.store;
  place.store.commit = () => Promise.reject(new Error('the disk is full'));
  await t.rejects(resource.fetch(channel), /the disk is full/);
  t.same([credentials.list(), policies.autoRules('acme'), resource.version()], [[], undefined, '']);
  place.store.commit = commit;
  await resource.fetch(channel);
  t.equal(credentials.secretOf('acme', 'c'), SECRET);
  await resource.erase?.();
  t.same([credentials.list(), resource.version()], [[], '']);
  t.match(policies.autoRules('acme'), /auto\.allow\.openai/, 'an erasure opens no layer');
  t.same(await place.store.list('credential'), []);
});

t.test('export destinations are those of this node, with their secrets, and what stays keeps its place', async (t) => {
  const { channel, put, entities, commit } = await connected(t);
  const place = await somePlace(t);
  const { exports, remote } = await gateway(t, place);
  const siem = { name: 'SIEM', kind: 'webhook', config: { url: 'https://siem.example.com/', token: 'token-0123456789' } };
  await put('export-destinations', 'siem', siem);
  await put('export-destinations', 'mine', { ...siem, node_id: 'node-1', event_types: ['audit'] });
  await put('export-destinations', 'other', { ...siem, node_id: 'node-2' });
  await fetchOf(remote, 'export_config', channel);
  t.same(
    exports.destinations
      .list('acme')
      .map(({ id }) => id)
      .sort(),
    ['mine', 'siem'],
  );
  t.match(exports.destinations.open('siem'), { org_id: 'acme', config: { token: 'token-0123456789' } });
  const before = await place.store.entity('export_destination', 'siem');
  await put('export-destinations', 'mine', { ...siem, node_id: 'node-1', event_types: ['approval'] });
  await fetchOf(remote, 'export_config', channel);
  t.match(exports.destinations.get('acme', 'mine'), { event_types: ['approval'] });
  t.same(await place.store.entity('export_destination', 'siem'), before, 'what is as it was is not touched');
  await entities.remove('acme', 'export-destinations', 'mine', commit);
  await fetchOf(remote, 'export_config', channel);
  t.same(
    exports.destinations.list('acme').map(({ id }) => id),
    ['siem'],
  );
  const text = JSON.stringify({ id: 'siem', ...siem });
  await fetchOf(remote, 'export_config', saying({ version: '9', destinations: [text], inherit_org_defaults: false, next_cursor: '' }));
  t.equal(await inheritanceOf(place.store, 'node-1'), false, 'also after a restart');
  t.same(
    exports.lags().map(([id]) => id),
    ['siem'],
  );
});

t.test('API keys are looked up by their hash, and usage reports are taken', async (t) => {
  const { channel, apiKeys: made, commit, plane } = await connected(t);
  const { apiKeys, remote, throughChannel } = await gateway(t, await somePlace(t));
  const link: ControlPlaneLink = {
    contact: { status: 'connected', offlineSince: undefined, posture: 'normal', org: undefined, revoked: false },
    checkInSoon: () => undefined,
  };
  const report = { schema: 'gw.telemetry.v2', providers: {}, risk_alerts: 0 } as never;
  t.match(await throughChannel.send(report, new AbortController().signal), { delivered: false, detail: /no contact/ });
  remote.attach(channel, link);
  const { plain, key } = await made.create('acme', { name: 'ci' }, commit);
  const local = await apiKeys.create({ orgId: 'acme', name: 'made here', expiresAtMs: undefined });
  t.match(await apiKeys.judge(plain), { result: 'valid', key: { id: key.id, org_id: 'acme', name: 'ci', key_prefix: plain.slice(0, 12) } });
  t.same(await apiKeys.judge(local.plain), { result: 'invalid_key' }, 'what was made here opens nothing');
  const version = resourceOf(remote, 'api_keys').version();
  await made.revoke('acme', key.id, commit);
  t.match(apiKeys.judge(plain), { result: 'valid' }, 'nobody has told of it yet');
  await fetchOf(remote, 'api_keys', channel);
  t.match(apiKeys.judge(plain), { result: 'revoked' });
  t.not(resourceOf(remote, 'api_keys').version(), version);
  t.match(await throughChannel.send(report, new AbortController().signal), { delivered: true });
  t.equal(plane.state.registers.telemetry.reports, 1);
});
