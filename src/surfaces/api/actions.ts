import type { Arrival } from '../../base/model/arrival.ts';
import { EXECUTE } from '../../operations/served-elsewhere.ts';
import type { Route } from '../http/route.ts';

/** The structured API (specification, "Action execution"). The pipeline answers by itself, in an envelope or as an event stream. */
export function actionRoutes(runDirect: (arrival: Arrival) => void): readonly Route[] {
  const { method, path, scope, summary } = EXECUTE;
  return [{ method, path, auth: scope, summary, take: runDirect }];
}
