import type { Allowance } from '../../src/services/money/allowance.ts';

/** The same allowance in another place: each verb answers later, and what is asked and answered passes as JSON. */
export function elsewhere(here: Allowance): Allowance {
  return {
    take: async (ask) => sent(await here.take(sent(ask))),
    peek: async (question) => sent(await here.peek(sent(question))),
    grow: async (id, pico) => sent(await here.grow(id, pico)),
    settle: async (id, settled) => here.settle(id, settled && { ...settled, spender: sent(settled.spender) }),
    stored: async (id) => here.stored(id),
    failed: async (id) => here.failed(id),
    giveBack: async (id, isMade) => here.giveBack(id, isMade),
  };
}

function sent<T>(data: T): T {
  return data === undefined ? data : (JSON.parse(JSON.stringify(data)) as T);
}
