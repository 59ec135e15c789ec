/*
 * A process that commits events FROM to TO in a store, delivers what waits and says what it delivered; with `kill` it
 * dies by SIGKILL after a delivery, before that is noted. Arguments: folder, FROM, TO, `kill` or `end`.
 */
import { writeSync } from 'node:fs';
import { systemClock } from '../../src/base/lib/clock.ts';
import { silentLogger } from '../../src/base/lib/log.ts';
import type { BudgetAlert } from '../../src/base/model/budget-limit.ts';
import { Outbox } from '../../src/services/sending/outbox.ts';
import { openEmbeddedStore } from '../../src/storage/embedded/open-embedded-store.ts';

const [dir = '', from = '', to = '', end] = process.argv.slice(2);
const store = await openEmbeddedStore({ dir, fsync: 'off', clock: systemClock, log: silentLogger });
let done: () => void = () => undefined;
const finished = new Promise<void>((resolve) => {
  done = resolve;
});
const outbox = await Outbox.open({
  store,
  clock: systemClock,
  log: silentLogger,
  writer: 'node',
  destinations: [
    {
      id: 'said',
      deliver: (batch) => {
        const said = batch.map(({ event }) => (event as BudgetAlert).spentUsd);
        writeSync(1, `${said.at(0)}-${said.at(-1)}\n`);
        if (end === 'kill') process.kill(process.pid, 'SIGKILL');
        if (said.at(-1) === to) done();
        return Promise.resolve();
      },
    },
  ],
});
for (let at = Number(from); at <= Number(to); at++) {
  const posted = outbox.post('budgetAlert', { limit: { org_id: 'o' }, spentUsd: String(at) } as BudgetAlert);
  await store.commit(undefined, posted.effects);
  posted.stored();
}
outbox.start();
await finished;
await outbox.close();
await store.close();
