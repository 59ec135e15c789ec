import type { Facts } from '../../decide/policy/facts.ts';
import { hidesSomething } from '../../decide/policy/hidden.ts';
import type { Intake, Parts } from './parts.ts';

type Read = Pick<Parts, 'action' | 'asked'> & { readonly intake?: Intake | undefined };

/** Whether everything of a request that could matter is in its action hash: then what is approved is what runs (decision 9.1). */
export function isBound({ action, asked, intake }: Read, facts: Facts): boolean {
  if (action.isEnvelope) return true;
  if (intake?.streamed !== undefined || hidesSomething(facts)) return false;
  return asked.body === undefined ? (intake?.requestBytes ?? 0) === 0 : asked.body.kind !== 'form';
}
