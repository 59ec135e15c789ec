import { isUnambiguousJson } from '../../base/json/unambiguous-json.ts';
import type { Facts } from '../../decide/policy/facts.ts';
import { hidesSomething } from '../../decide/policy/hidden.ts';
import type { Intake, Parts } from './parts.ts';

type Read = Pick<Parts, 'arrival' | 'action' | 'asked'> & { readonly intake?: Intake | undefined };

/**
 * Whether everything of a request that could matter is in its action hash: then what is approved is what runs (decision 9.1). The hash covers what we read; a body that is
 * sent as it came must then say the same to every other reader.
 */
export function isBound({ arrival, action, asked, intake }: Read, facts: Facts): boolean {
  if (action.isEnvelope) return true;
  if (intake?.streamed !== undefined || hidesSomething(facts)) return false;
  const { body } = asked;
  if (body === undefined) return (intake?.requestBytes ?? 0) === 0;
  // On a socket it is the event that goes on.
  return body.kind === 'empty' || (body.kind === 'json' && isUnambiguousJson(arrival.socketCall?.event?.text ?? body.text));
}
