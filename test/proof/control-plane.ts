/*
 * Two gateways, their control plane and the links between them are killed, cut, silenced, delayed and brought back in
 * random order under load (decisions 13.2, 13.3, 13.8): every record ends up in the ledger exactly once, with a proof
 * that holds; roots stay what they were; no bundle that is forged or older than the last is ever active; and of a
 * suspended org one request passes at most.
 */
import { eventually } from '../support/child.ts';
import { ControlPlanePlace } from '../support/control-plane-place.ts';
import type { CuttableLink } from '../support/cuttable-link.ts';
import { gatewayEnvironment } from '../support/gateway-process.ts';
import type { PlaceAnswer } from '../support/place-calls.ts';
import { startTlsUpstream } from '../support/tls-upstream.ts';
import { towards } from '../support/upstreams.ts';
import { type Checks, type CleanUp, prove, sleep } from './checks.ts';
import { ALLOWED_MODEL, ControlledGateway } from './controlled-gateway.ts';
import { LedgerAudit } from './ledger-audit.ts';
import { LiedTo, type LieFindings, numberedBundle } from './lied-to.ts';
import { carryOutFaults, describeFaults, drawFaults, type Mortal } from './link-faults.ts';
import { proofFolders } from './proof-gateway.ts';
import { Seeded } from './seeded.ts';
import { proofSettings } from './settings.ts';
import { bundlesThatWentBack, hashesBelow } from './stored-hashes.ts';

const ROUNDS = { tenth: 2, full: 20, long: 20 };
const LANES = 3;
const HOST = 'api.openai.com';
const PENDING = 'gw_pending_hash_submissions';
/** Until everything that was broken has found together again: no judgement of speed. */
const WAIT_MS = 180_000;
/** Calls one after the other that none may pass. */
const CALLS_WHILE_SUSPENDED = 6;

interface Found {
  readonly answers: string[];
  readonly lost: string[];
  readonly unproven: string[];
  readonly notOnce: string[];
  readonly rewritten: string[];
  readonly bundles: string[];
  readonly suspended: string[];
  readonly lies: LieFindings;
}

interface Campaign {
  readonly cleanUp: CleanUp;
  readonly root: string;
  readonly place: ControlPlanePlace;
  /** The first checks in, the second is managed. */
  readonly gateways: readonly [ControlledGateway, ControlledGateway];
  readonly links: ReadonlyMap<string, CuttableLink>;
  readonly ledger: LedgerAudit;
  readonly found: Found;
  /** Of the newest bundle that was handed to the control plane. */
  bundle: number;
  faults: number;
}

await prove(async (checks, cleanUp) => {
  const settings = proofSettings();
  const rounds = settings.rounds ?? ROUNDS[settings.length];
  checks.note(`control plane: ${rounds} rounds, ${LANES} callers at each of 2 gateways, seed ${settings.seed}`);
  const campaign = await setUp(cleanUp);
  const liedTo = await LiedTo.start(cleanUp, campaign.root, { ...gatewayEnvironment(cleanUp), ...(await upstreamOf(cleanUp)) });
  for (let round = 1; round <= rounds; round += 1) {
    const random = new Seeded(`${settings.seed}/${round}`);
    await underFaults(campaign, random, round, checks);
    await together(campaign, random);
    await weigh(campaign, random);
    await suspended(campaign, random, round);
    await liedTo.round(random, campaign.found.lies);
  }
  await together(campaign, new Seeded(`${settings.seed}/end`));
  await weigh(campaign, new Seeded(`${settings.seed}/end`));
  await liedTo.weigh(campaign.found.lies);
  const ends = (await Promise.all(campaign.gateways.map((gateway) => gateway.stop()))).flat();
  report(checks, campaign, ends);
});

async function upstreamOf(cleanUp: CleanUp): Promise<Record<string, string>> {
  const upstream = await startTlsUpstream({
    hosts: [HOST],
    handler: (_request, response, whole) =>
      void whole.then(() =>
        response.setHeader('content-type', 'application/json').end('{"usage":{"prompt_tokens":11,"completion_tokens":7}}'),
      ),
  });
  cleanUp.teardown(() => upstream.close());
  return towards(cleanUp, upstream, [HOST]);
}

async function setUp(cleanUp: CleanUp): Promise<Campaign> {
  const { root } = proofFolders(cleanUp);
  const place = await ControlPlanePlace.start(cleanUp);
  await place.does('PUT', '/bundle', { bundle_yaml: numberedBundle(1) });
  const second = await place.anotherLink();
  const upstream = { ...(await upstreamOf(cleanUp)), GW_LOG_LEVEL: 'warn' };
  const apiKey = String((await place.does('POST', '/api-keys', { name: 'the callers' }))['key']);
  const selfHosted = new ControlledGateway(cleanUp, 'node-a', await place.gatewayEnvironment('node-a', upstream));
  const managedEnv = { ...upstream, GW_GATEWAY_MODE: 'managed', GW_CP_ADDR: second.address };
  const managed = new ControlledGateway(cleanUp, 'node-b', await place.gatewayEnvironment('node-b', managedEnv), apiKey);
  for (const gateway of [selfHosted, managed]) {
    await gateway.start();
    await eventually('a first call that is allowed', async () =>
      (await gateway.call(new Seeded('first')))?.status === 200 ? true : undefined,
    );
  }
  return {
    cleanUp,
    root,
    place,
    gateways: [selfHosted, managed],
    links: new Map([
      ['link of node-a', place.link],
      ['link of node-b', second],
    ]),
    ledger: new LedgerAudit(place.org),
    found: {
      answers: [],
      lost: [],
      unproven: [],
      notOnce: [],
      rewritten: [],
      bundles: [],
      suspended: [],
      lies: { problems: [], lies: 0, truths: 0 },
    },
    bundle: 1,
    faults: 0,
  };
}

async function underFaults(campaign: Campaign, random: Seeded, round: number, checks: Checks): Promise<void> {
  const { place, gateways, links } = campaign;
  const controlPlane: Mortal = {
    name: 'control plane',
    kill: () => place.killControlPlane(),
    start: () => place.startControlPlane(),
  };
  const mortals = [controlPlane, ...gateways];
  const plan = drawFaults(
    random,
    mortals.map(({ name }) => name),
    [...links.keys()],
  );
  campaign.faults += plan.length;
  checks.note(`       round ${round}: ${describeFaults(plan)}`);
  let over = false;
  const lanes = gateways.flatMap((gateway) =>
    Array.from({ length: LANES }, (_, lane) => gateway.lane(new Seeded(`${round}/${gateway.name}/${lane}/${random.next()}`), () => over)),
  );
  const publishing = publish(campaign, new Seeded(`${round}/bundles/${random.next()}`), () => over);
  await carryOutFaults(plan, mortals, links, random);
  await sleep(random.between(200, 600));
  over = true;
  await Promise.all([...lanes, publishing]);
}

/** New bundles, each with the next number, as long as somebody takes them. */
async function publish(campaign: Campaign, random: Seeded, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    await sleep(random.between(100, 500));
    const number = campaign.bundle + 1;
    // Whether one took it that died before it could say so is seen when all are together again.
    await campaign.place.does('PUT', '/bundle', { bundle_yaml: numberedBundle(number) }).catch(() => undefined);
    campaign.bundle = number;
  }
}

/** Everything is up: the newest bundle is handed out, taken by both, and nothing waits any more. */
async function together(campaign: Campaign, random: Seeded): Promise<void> {
  campaign.bundle += 1;
  await campaign.place.does('PUT', '/bundle', { bundle_yaml: numberedBundle(campaign.bundle) });
  for (const gateway of campaign.gateways) {
    await eventually(
      `${gateway.name} connected, with bundle ${campaign.bundle} and nothing waiting`,
      async () => {
        const health = await gateway.health();
        if (health?.['cp_status'] === 'connected' && String(health['bundle_version']).startsWith(`${campaign.bundle}+`))
          return (await gateway.metric(PENDING)) === 0 ? true : undefined;
        await gateway.call(random);
        return undefined;
      },
      WAIT_MS,
    );
  }
}

async function weigh({ root, place, gateways, ledger, found }: Campaign, random: Seeded): Promise<void> {
  const stored = [];
  for (const gateway of gateways) {
    const records = await hashesBelow(root, gateway.dataDir);
    const ids = new Set(records.map(({ id }) => id));
    for (const { model, answer } of gateway.heard.splice(0)) {
      const { status, recordId, body } = answer;
      const isRight = status === (model === ALLOWED_MODEL ? 200 : 403) || isSuspended(answer);
      if (!isRight) found.answers.push(`${gateway.name}: ${status} for ${model}: ${JSON.stringify(body).slice(0, 300)}`);
      if (recordId === undefined || !ids.has(recordId)) found.lost.push(`${gateway.name}: ${String(recordId)}`);
    }
    found.bundles.push(...bundlesThatWentBack(records).map((problem) => `${gateway.name}: ${problem}`));
    stored.push(...records);
  }
  // The last batch is signed a second after its first hash at the latest.
  const hashes = new Set(stored.map(({ hash }) => hash)).size;
  await eventually(
    'the last root',
    async () => ((await ledger.leavesAt(place.controlPlane.url)) >= hashes ? true : undefined),
    WAIT_MS,
  ).catch((error: unknown) => found.unproven.push(String(error)));
  await ledger.weigh(place.controlPlane.url, stored, random, found);
}

function isSuspended(answer: PlaceAnswer | undefined): boolean {
  return answer?.status === 403 && JSON.stringify(answer.body).includes('org_suspended');
}

/** Nobody else calls: each call is made when the one before is answered. */
async function suspended({ place, gateways, links, found }: Campaign, random: Seeded, round: number): Promise<void> {
  const [selfHosted, managed] = gateways;
  await place.does('PUT', '', { status: 'suspended', suspended_reason: `round ${round}` });
  const outcomes = async (gateway: ControlledGateway, calls: number): Promise<boolean[]> => {
    const passed: boolean[] = [];
    for (let call = 0; call < calls; call += 1) passed.push(!isSuspended(await gateway.call(random)));
    return passed;
  };
  // One may pass; the answer to its hash says what has become of the org.
  const submittedAt = async () => (await selfHosted.health())?.['last_hash_submit_at'];
  const before = await submittedAt();
  const passed = (await outcomes(selfHosted, 1)).filter(Boolean).length;
  await eventually('the acknowledgement', async () => ((await submittedAt()) === before ? undefined : true), WAIT_MS);
  const after = (await outcomes(selfHosted, CALLS_WHILE_SUSPENDED)).filter(Boolean).length;
  if (passed + after > 1) found.suspended.push(`round ${round}: ${passed + after} requests passed at ${selfHosted.name}`);
  if (after > 0) found.suspended.push(`round ${round}: ${after} requests passed at ${selfHosted.name} after it had heard of it`);
  await eventually('the managed gateway denies', async () => ((await outcomes(managed, 1))[0] ? undefined : true), WAIT_MS);
  if ((await outcomes(managed, CALLS_WHILE_SUSPENDED)).some(Boolean))
    found.suspended.push(`round ${round}: ${managed.name} let one pass again`);
  if (random.chance(0.5)) {
    for (const link of links.values()) link.cut();
    for (const gateway of gateways) {
      await gateway.kill();
      await gateway.start();
      if ((await outcomes(gateway, 3)).some(Boolean))
        found.suspended.push(`round ${round}: ${gateway.name} had forgotten it after its start`);
    }
    for (const link of links.values()) link.resume();
  }
  await place.does('PUT', '', { status: 'active', suspended_reason: null });
  for (const gateway of gateways) {
    await eventually(`${gateway.name} lets calls pass again`, async () => ((await outcomes(gateway, 1))[0] ? true : undefined), WAIT_MS);
  }
}

function report(checks: Checks, { ledger, found, faults, bundle }: Campaign, ends: readonly string[]): void {
  const { lies, truths, problems } = found.lies;
  checks.note(
    `       ${faults} faults, ${ledger.proven} records under ${ledger.roots} roots, ${bundle} bundles; ${lies} lies and ${truths} truths elsewhere`,
  );
  checks.check('whatever was away, every call was answered as policy says', found.answers);
  checks.check('what a client was told of is recorded', found.lost);
  checks.check('every record has a proof that holds, whatever was killed', found.unproven);
  checks.check('every record is in the ledger once, and nothing else is', found.notOnce);
  checks.check('no root is ever another than it was', found.rewritten);
  checks.check('no bundle is decided by that is older than one before', found.bundles);
  checks.check('of a suspended org one request passes at most, and a start forgets nothing of it', found.suspended);
  checks.check('no bundle with a wrong signature, of another org or an older sequence is ever active', problems);
  checks.check('the gateways end in order', ends);
  checks.check('the proof has proven something', ledger.proven > 0 && lies > 0 && truths > 0 && faults > 0 ? [] : ['nothing was proven']);
}
