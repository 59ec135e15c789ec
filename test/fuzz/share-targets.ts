import { Shares } from '../../src/base/lib/shares.ts';
import { type FuzzTarget, must } from './target.ts';

const PLACES = 24;

/**
 * Orgs and callers that take and give back places, one step for each byte: what one of them does leaves something to
 * the others (decision 7.12).
 */
const shares: FuzzTarget = {
  name: 'shares',
  inputs: 1_000_000,
  headLines: 0,
  dictionary: ['\x00\x00\x00\x00', '\x20\x28\x30\x38', '\x80\x80', '\xa0\xa8\xb0\xb8', '\x01\x02\x03\x04\x05\x06\x07'],
  run(input) {
    const places = new Shares(PLACES);
    const held = new Map<string, number>();
    const refused = { all: 0, caller: 0, org: 0 };
    for (const byte of input.subarray(0, 4_096)) {
      const [org, caller] = [`o${byte & 7}`, `c${(byte >> 3) & 3}`];
      const key = `${org} ${caller}`;
      const own = held.get(key) ?? 0;
      if (byte >= 0x80) {
        if (own === 0) continue;
        places.give(org, caller);
        held.set(key, own - 1);
        continue;
      }
      const full = places.full(org, caller);
      if (full !== undefined) {
        refused[full] += 1;
        must(full !== 'caller' || own > 0, 'a caller who holds nothing is not at his own bound');
        must(full !== 'org' || places.takenBy(org) > 0, 'an org that holds nothing is not at its own bound');
        continue;
      }
      places.take(org, caller);
      held.set(key, own + 1);
      must(2 * places.takenBy(org) <= PLACES + 1, 'an org holds half of the places at most');
      must(3 * (own + 1) <= PLACES + 2, 'a caller holds a third of the places at most');
    }
    const sum = [...held.values()].reduce((total, count) => total + count, 0);
    must(places.taken === sum && sum <= PLACES, 'what is taken is what was taken and not given back');
    must(sum === PLACES || places.full('somebody new') === undefined, 'an org that comes last finds a place while one is free');
    return Object.entries(refused)
      .map(([who, count]) => (count > 0 ? who : ''))
      .join('');
  },
};

export const SHARE_TARGETS: readonly FuzzTarget[] = [shares];
