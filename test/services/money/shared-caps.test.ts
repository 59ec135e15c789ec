// The caps that several gateways share: what one holds it spends without asking, and together they never pass one.
import t from 'tap';
import { picoFromUsd } from '../../../src/base/lib/money.ts';
import { type Tap, until } from '../../contract/store-under-test.ts';
import { PgRig } from '../../storage/postgres/pg-rig.ts';
import { PgliteDatabase } from '../../storage/postgres/pglite-database.ts';
import { exactly } from '../../support/exactly.ts';
import { inTime, NodeDisk, orgLimit, type SharedNode, SPENDER, startNode } from './shared-rig.ts';

const database = await PgliteDatabase.start(t);

async function place(t: Tap, ...limits: readonly ReturnType<typeof orgLimit>[]): Promise<PgRig> {
  const rig = new PgRig(t, await database.clear());
  const { store } = await rig.open();
  for (const limit of limits) await store.commit(undefined, [{ op: 'put', space: 'budget_limit', key: limit.limit_id, value: limit }]);
  return rig;
}

/** Lets a node see what others have done in the last second. */
async function looks(rig: PgRig, { caps }: SharedNode): Promise<void> {
  rig.clock.advance(1_000);
  await caps.exchange();
}

/** Counts the exchanges of a node. */
function exchanges({ opened }: SharedNode): () => number {
  let count = 0;
  opened.pools.around = (text, send) => {
    if (text.startsWith('UPDATE gw_nodes SET position')) count += 1;
    return send();
  };
  return () => count;
}

await t.test('what a node holds it spends without asking, more is asked for ahead, and a refusal has the sums of all', async (t) => {
  const rig = await place(t, orgLimit('10'));
  const [one, two] = [await startNode(t, rig, new NodeDisk('one')), await startNode(t, rig, new NodeDisk('two'))];
  t.equal(await one.spend('0.1'), undefined);
  for (let call = 0; call < 30; call += 1) t.equal(await one.spend('0.1'), undefined);
  await one.caps.exchange();
  const count = exchanges(one);
  const taken = one.allowance.take({ id: 'now', orgId: 'o', workloadId: 'w', spend: { spender: SPENDER, pico: `${picoFromUsd('0.1')}` } });
  t.notOk(taken instanceof Promise, 'at once');
  t.equal(count(), 0);
  one.allowance.giveBack('now');
  t.equal(await two.spend('1'), undefined);
  await two.caps.exchange();
  await one.caps.exchange();
  t.match(await two.take('7'), { kind: 'limit', capUsd: exactly('10'), spentUsd: exactly('4.1') });
  await looks(rig, one);
  t.equal(one.shown[0], '4.1', 'what others have spent is shown');
});

await t.test('a limit that only alerts shows what others spend, however long nothing happens here', async (t) => {
  const rig = await place(t, orgLimit('10', { actions: ['alert'] }));
  const [one, two] = [await startNode(t, rig, new NodeDisk('one')), await startNode(t, rig, new NodeDisk('two'))];
  for (let seconds = 0; seconds < 130; seconds += 1) await looks(rig, one);
  t.equal(await two.spend('4'), undefined);
  await two.caps.exchange();
  await looks(rig, one);
  t.equal(one.shown[0], '4');
});

await t.test('near its end a cap is taken call by call, and all of it is used', async (t) => {
  const rig = await place(t, orgLimit('1'));
  const nodes = [await startNode(t, rig, new NodeDisk('one')), await startNode(t, rig, new NodeDisk('two'))] as const;
  let paid = 0n;
  for (let round = 0; round < 40; round += 1)
    for (const node of nodes) {
      const refused = await node.spend('0.03');
      if (refused === undefined) paid += picoFromUsd('0.03');
      await node.caps.exchange();
    }
  t.ok(paid <= picoFromUsd('1'));
  rig.clock.advance(60_000);
  for (const node of nodes) await node.caps.exchange();
  t.equal(await nodes[0].spend('0.01'), undefined, 'what is left when the other has given back');
  await nodes[0].caps.exchange();
  t.match(await nodes[1].take('0.1'), { kind: 'limit' });
});

await t.test('a smaller cap is asked for by itself, also of what is held under a larger one', async (t) => {
  const rig = await place(t, orgLimit('10'));
  const [one, two] = [await startNode(t, rig, new NodeDisk('one')), await startNode(t, rig, new NodeDisk('two'))];
  const project = (usd: string, capUsd: string) => ({ spend: { spender: SPENDER, pico: `${picoFromUsd(usd)}`, monthlyCapUsd: capUsd } });
  const first = await one.take('2', project('2', '5'));
  t.type(first, 'string');
  t.match(await two.take('2', project('2', '3')), { kind: 'month', reservedUsd: exactly('2') }, 'what the other has set aside counts');
  t.type(await two.take('2', project('2', '5')), 'string');
  t.match(await one.take('2', project('2', '5')), { kind: 'month' });
  t.type(await one.take('0.5', project('0.5', '5')), 'string');
});

await t.test('an hour turns: what is under way elsewhere counts in the next one', async (t) => {
  const rig = await place(t, orgLimit('1', { period: 'hourly' }));
  const [one, two] = [await startNode(t, rig, new NodeDisk('one')), await startNode(t, rig, new NodeDisk('two'))];
  const id = await one.take('0.8');
  rig.clock.advance(3_600_000);
  t.match(await inTime(rig, two.take('0.5')), { kind: 'limit', spentUsd: exactly('0'), reservedUsd: exactly('0.8') });
  one.end(id as string, '0.3');
  await one.caps.exchange();
  rig.clock.advance(60_000);
  await one.caps.exchange();
  t.type(await inTime(rig, two.take('0.7')), 'string');
  t.match(await inTime(rig, one.take('0.1')), { kind: 'limit', spentUsd: exactly('0.3') });
});

await t.test('the database is away: what is held lasts, then calls are refused, or go on where that is said', async (t) => {
  const rig = await place(t, orgLimit('1000'));
  const strict = await startNode(t, rig, new NodeDisk('strict'));
  const lax = await startNode(t, rig, new NodeDisk('lax'), { goesOn: true });
  for (const node of [strict, lax]) {
    for (let call = 0; call < 5; call += 1) await node.spend('1');
    await node.caps.exchange();
    await node.spend('1');
    await node.caps.exchange();
    node.opened.pools.failing = true;
    t.equal(await node.spend('1'), undefined, 'it holds that');
  }
  t.strictSame(await inTime(rig, strict.take('500')), { kind: 'unavailable', retryAfterSeconds: 5 });
  t.type(await inTime(rig, lax.take('500')), 'string');
  t.match(await inTime(rig, lax.take('600')), { kind: 'limit' }, 'counted here');
  for (const node of [strict, lax]) node.opened.pools.failing = false;
  t.type(await inTime(rig, strict.take('500')), 'string', 'and is refused nothing when it is back');
});

await t.test('behind a link that is broken without a sign nobody waits longer than ten seconds, and then nobody waits', async (t) => {
  const rig = await place(t, orgLimit('1000'));
  const node = await startNode(t, rig, new NodeDisk('one'));
  await node.spend('1');
  await node.caps.exchange();
  let mend = (): void => undefined;
  const mended = new Promise<void>((resolve) => (mend = resolve));
  let sent = 0;
  node.opened.pools.around = async (_text, send) => {
    sent += 1;
    await mended;
    return send();
  };
  const waits = node.take('400');
  await until(() => sent > 0);
  rig.clock.advance(9_999);
  rig.clock.advance(1);
  t.match(await waits, { kind: 'unavailable' });
  t.match(await node.take('400'), { kind: 'unavailable' }, 'at once');
  node.opened.pools.around = undefined;
  mend();
  await node.caps.exchange();
  t.type(await inTime(rig, node.take('400')), 'string');
});

await t.test('a stream grows by what is granted, and ends where others have the rest', async (t) => {
  const rig = await place(t, orgLimit('10'));
  const [one, two] = [await startNode(t, rig, new NodeDisk('one')), await startNode(t, rig, new NodeDisk('two'))];
  const id = (await one.take('1')) as string;
  t.type(await two.take('4'), 'string');
  const grow = async (usd: string) => one.allowance.grow(id, picoFromUsd(usd));
  t.equal(await grow('5'), undefined);
  t.match(await grow('7'), { kind: 'limit', reservedUsd: exactly('4') });
  t.equal(await grow('6'), undefined);
  one.opened.pools.failing = true;
  const cut = await inTime(rig, grow('6.5'));
  t.match(cut, { kind: 'limit' }, 'what others have left nobody can say');
  one.opened.pools.failing = false;
});

await t.test('what is not used for a minute is given back, and all that is free at the end', async (t) => {
  const rig = await place(t, orgLimit('100'));
  const [one, two] = [await startNode(t, rig, new NodeDisk('one')), await startNode(t, rig, new NodeDisk('two'))];
  const holds = async () => {
    for (let call = 0; call < 6; call += 1) await one.spend('1');
    await one.caps.exchange();
    await one.spend('1');
    await one.caps.exchange();
    await looks(rig, two);
    return two.shown[1];
  };
  t.not(await holds(), '0');
  rig.clock.advance(60_000);
  await one.caps.exchange();
  await looks(rig, two);
  t.equal(two.shown[1], '0');
  t.not(await holds(), '0');
  await one.caps.close();
  await looks(rig, two);
  t.same(two.shown, ['14', '0']);
});

await t.test('the budget of a delegation and the requests of a month are shared by the same way', async (t) => {
  const rig = await place(t);
  const options = { monthlyLimit: 7 };
  const nodes = [await startNode(t, rig, new NodeDisk('one'), options), await startNode(t, rig, new NodeDisk('two'), options)] as const;
  const spender = { ...SPENDER, delegations: [{ delegationId: 'd', capUsd: '1' }] };
  let made = 0;
  for (let round = 0; round < 4; round += 1)
    for (const node of nodes) {
      const id = await node.take('0.3', { spend: { spender, pico: `${picoFromUsd('0.3')}` } });
      if (typeof id !== 'string') continue;
      made += 1;
      node.end(id, '0.3', spender);
      await looks(rig, node);
    }
  t.equal(made, 3);
  t.match(await nodes[1].take('0.3', { spend: { spender, pico: `${picoFromUsd('0.3')}` } }), {
    kind: 'delegation',
    spentUsd: exactly('0.9'),
  });

  const month = async (node: SharedNode, at: number) =>
    node.allowance.take({ id: `${node.disk.name} ${at}`, orgId: 'o', workloadId: 'w', month: true });
  const answers = await Promise.all(Array.from({ length: 10 }, (_, at) => month(nodes[at % 2] as SharedNode, at)));
  t.equal(answers.filter((answer) => answer !== undefined && 'id' in answer).length, 7);
  nodes[0].allowance.giveBack('one 0');
  rig.clock.advance(60_000);
  await nodes[0].caps.exchange();
  t.match(await inTime(rig, Promise.resolve(month(nodes[1], 10))), { id: 'two 10' });
  const id = 'two 10';
  nodes[1].disk.note(nodes[1].allowance.settle(id), 0n);
  nodes[1].allowance.stored(id);
  await looks(rig, nodes[1]);
  t.match(await inTime(rig, Promise.resolve(month(nodes[0], 11))), { kind: 'requests' });
});
