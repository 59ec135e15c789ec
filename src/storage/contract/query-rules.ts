// What the contract asks of a query of records before anything is looked up, whichever driver answers it.
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { parseUsd } from '../../base/lib/money.ts';
import type { RecordQuery } from './record-query.ts';

/** @throws TypeError for a limit that is no integer of at least 1, and for a time or a cost that is none */
export function checkQuery({ limit, since, until, min_cost_usd: cost }: RecordQuery): void {
  if (!Number.isInteger(limit) || limit < 1) throw new TypeError('The limit of a page is an integer of at least 1');
  if ([since, until].some(Number.isNaN)) throw new TypeError('A time is a number');
  if (cost !== undefined && parseUsd(cost) === undefined) throw new TypeError('A cost is decimal text');
}

/** The error for an `after` that no page has had. */
export function unknownPosition(): GatewayError {
  return new GatewayError('invalid_request', 'The page begins after a position that this store never gave out');
}
