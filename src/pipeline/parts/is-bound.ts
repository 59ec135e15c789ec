import { isUnambiguousJson } from '../../base/json/unambiguous-json.ts';
import type { Facts } from '../../decide/policy/facts.ts';
import { hidesSomething } from '../../decide/policy/hidden.ts';
import type { Verdict } from '../../decide/policy/verdict.ts';
import type { Intake, Parts } from './parts.ts';

type Read = Pick<Parts, 'arrival' | 'action' | 'asked'> & { readonly intake?: Intake | undefined };

/**
 * Whether everything of a request that could matter is in its action hash: then what is approved is what runs (decision
 * 9.1). The hash covers what we read; a body that is sent as it came must then say the same to every other reader.
 */
export function isBound({ arrival, action, asked, intake }: Read, facts: Facts): boolean {
  if (action.isEnvelope) return true;
  if (intake?.streamed !== undefined || hidesSomething(facts)) return false;
  const { body } = asked;
  if (body === undefined) return (intake?.requestBytes ?? 0) === 0;
  // On a socket it is the event that goes on.
  return body.kind === 'empty' || (body.kind === 'json' && isUnambiguousJson(arrival.socketCall?.event?.text ?? body.text));
}

/** What policy says of a call that needs an approval and is not bound. */
export function cannotWait(verdict: Verdict): Verdict {
  const reason = `${verdict.reason ?? 'approval_required'}; this call cannot wait for an approval, because not all of its body is read, or it could be read in two ways, or has no canonical form`;
  return { ...verdict, reason, reason_codes: [...verdict.reason_codes, 'approval_not_possible'] };
}
