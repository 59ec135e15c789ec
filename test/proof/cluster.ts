/*
 * Three gateways on one PostgreSQL under load, while nodes are killed, stand still, and the database goes away and
 * comes back: in the end every call that a client saw complete has its record, none is there twice, every record id
 * that a client saw leads to a record, and all totals are the sum of the records.
 */
import { join } from 'node:path';
import { systemClock } from '../../src/base/lib/clock.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import { openPostgresStore } from '../../src/storage/postgres/open-postgres-store.ts';
import { PostgresServer } from '../storage/postgres/server.ts';
import { type CallResult, drawCall } from './calls.ts';
import { type Checks, type CleanUp, prove, sleep } from './checks.ts';
import { Clients } from './clients.ts';
import { type PacedUpstream, startPacedUpstream } from './paced-upstream.ts';
import { ProofGateway, proofEnvironment, proofFolders } from './proof-gateway.ts';
import { Seeded } from './seeded.ts';
import { proofSettings } from './settings.ts';
import { type Audit, audit } from './store-audit.ts';

const NODES = ['one', 'two', 'three'] as const;
/** Of each node. */
const LANES = 5;
const ROUNDS = { tenth: 5, full: 50, long: 200 };
/** Until everything that was left behind is in the database. */
const REST_MS = 60_000;
const SECRETS_KEY = Buffer.alloc(32, 5).toString('base64');

type Fault = 'kill' | 'stand still' | 'database';

/** A node: its folders stay, its process comes and goes. */
interface Node {
  readonly name: string;
  readonly env: Readonly<Record<string, string>>;
  readonly work: string;
  /** Undefined while it is down. */
  gateway: ProofGateway | undefined;
}

interface Cluster {
  readonly server: PostgresServer;
  readonly nodes: readonly Node[];
  readonly upstream: PacedUpstream;
  readonly cleanUp: CleanUp;
  readonly random: Seeded;
  readonly results: CallResult[];
  readonly problems: string[];
  over: boolean;
}

await prove(async (checks, cleanUp) => {
  const settings = proofSettings();
  const rounds = settings.rounds ?? ROUNDS[settings.length];
  checks.note(`cluster: ${NODES.length} nodes, ${rounds} faults, ${NODES.length * LANES} clients, seed ${settings.seed}`);
  const server = await PostgresServer.start(cleanUp);
  const url = server.url(await server.createDatabase());
  const upstream = await startPacedUpstream(cleanUp);
  const ca = join(proofFolders(cleanUp).root, 'ca');
  const nodes = NODES.map((name): Node => {
    const folders = proofFolders(cleanUp);
    const common = { GW_DATABASE_URL: url, GW_SECRETS_KEY: SECRETS_KEY, GW_CA_DIR: ca, GW_NODE_ID: name };
    return { name, env: { ...proofEnvironment(folders, upstream), ...common }, work: folders.work, gateway: undefined };
  });
  const random = new Seeded(`${settings.seed}/faults`);
  const cluster: Cluster = { server, nodes, upstream, cleanUp, random, results: [], problems: [], over: false };
  for (const node of nodes) await start(cluster, node);
  const lanes = nodes.flatMap((node) => Array.from({ length: LANES }, (_, lane) => work(cluster, node, lane, settings.seed)));
  const faults = new Map<Fault, number>();
  for (let round = 1; round <= rounds; round += 1) {
    await sleep(random.between(300, 1_200));
    const fault = random.weighted<Fault>([
      [4, 'kill'],
      [2, 'stand still'],
      [2, 'database'],
    ]);
    faults.set(fault, (faults.get(fault) ?? 0) + 1);
    await strike(cluster, fault);
    if (round % 10 === 0 && round < rounds) checks.note(`       ${round} faults, ${cluster.results.length} calls`);
  }
  await sleep(500);
  cluster.over = true;
  await Promise.all(lanes);
  await shipped(cluster);
  for (const { gateway } of nodes) await gateway?.stop();
  const store = await openPostgresStore({ url, clock: systemClock, log: silentLogger });
  const seen = await audit(store);
  await store.close();
  report(checks, cluster, seen, [...faults].map(([fault, count]) => `${fault} ${count}`).join(', '));
});

async function start({ cleanUp, problems }: Cluster, node: Node): Promise<void> {
  try {
    node.gateway = await ProofGateway.start(cleanUp, node.env, node.work);
  } catch (error) {
    problems.push(`${node.name} does not start: ${error instanceof Error ? error.message : String(error)}`);
    throw error;
  }
}

/** Keeps one client calling a node for as long as there is load; what it says while the node is down is no news. */
async function work(cluster: Cluster, node: Node, lane: number, seed: string): Promise<void> {
  const random = new Seeded(`${seed}/${node.name}/${lane}`);
  let clients: Clients | undefined;
  let of: ProofGateway | undefined;
  for (let call = 1; !cluster.over; call += 1) {
    if (node.gateway === undefined) {
      await sleep(50);
      continue;
    }
    if (of !== node.gateway || clients === undefined) {
      clients?.close();
      of = node.gateway;
      clients = new Clients({ ...of.address, upstreamCaPem: cluster.upstream.caPem });
    }
    cluster.results.push(await clients.perform(drawCall(random, `${node.name}-${lane}-${call}`), lane));
    await sleep(random.between(0, 60));
  }
  clients?.close();
}

async function strike(cluster: Cluster, fault: Fault): Promise<void> {
  const { random, nodes, server } = cluster;
  if (fault === 'database') {
    await server.stop('SIGQUIT');
    await sleep(random.between(0, 2_000));
    return server.run();
  }
  const node = random.pick(nodes);
  const { gateway } = node;
  if (gateway === undefined) throw new Error(`${node.name} is down`);
  if (fault === 'stand still') {
    process.kill(gateway.pid, 'SIGSTOP');
    await sleep(random.between(200, 3_000));
    process.kill(gateway.pid, 'SIGCONT');
    return;
  }
  node.gateway = undefined;
  await gateway.kill();
  await start(cluster, node);
}

/** Waits until no node has anything left to carry. */
async function shipped({ nodes, problems }: Cluster): Promise<void> {
  for (const end = performance.now() + REST_MS; performance.now() < end; await sleep(100)) {
    const left = await Promise.all(nodes.map(async ({ gateway }) => (await gateway?.metrics())?.['gw_backlog_records']));
    if (left.every((records) => records === 0)) return;
  }
  problems.push(`after ${REST_MS / 1_000} s there is a backlog`);
}

function report(checks: Checks, { results, problems, nodes }: Cluster, seen: Audit, faults: string): void {
  const acknowledged = results.filter((result) => result.acknowledged && result.recordId !== undefined);
  const cut = results.filter((result) => !result.acknowledged && result.recordId !== undefined);
  checks.note(`       struck: ${faults}`);
  checks.note(
    `       ${acknowledged.length} calls acknowledged, ${cut.length} cut off with an id, ${seen.records.size} records, ${seen.counters} totals`,
  );
  checks.check('every node starts, and carries all that it has', problems);
  checks.check('there was load', acknowledged.length >= 50 ? [] : [`${acknowledged.length} calls were acknowledged`]);
  const unlike = acknowledged.filter(
    ({ recordId = '', recordHash }) => seen.records.get(recordId)?.hash !== recordHash && recordHash !== undefined,
  );
  checks.check(
    'what a client saw has the record that it was told of',
    unlike.map(({ plan, recordId }) => `${plan.tag}: ${recordId}`),
  );
  const missing = (some: readonly CallResult[]): string[] =>
    some.filter(({ recordId = '' }) => !seen.records.has(recordId)).map(({ plan, recordId }) => `${plan.tag} (${plan.door}): ${recordId}`);
  checks.check('every call that a client saw complete has its record', missing(acknowledged));
  checks.check('every record id that a client saw leads to a record', missing(cut));
  checks.check('no call and no record is there twice', seen.doubles);
  checks.check('every record is as it was hashed', seen.badHashes);
  checks.check('all totals are the sum of the records', seen.wrongCounters);
  checks.check(
    'no node says that it was replaced',
    nodes.flatMap(({ gateway }) => gateway?.complaints().filter((line) => line.includes('stands behind the name')) ?? []),
  );
}
