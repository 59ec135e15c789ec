import type { Arrival } from '../../base/model/arrival.ts';
import type { Route } from '../http/route.ts';

/** The structured API (specification, "Action execution"). The pipeline answers by itself, in an envelope or as an event stream. */
export function actionRoutes(runDirect: (arrival: Arrival) => void): readonly Route[] {
  return [
    {
      method: 'POST',
      path: '/v1/actions:execute',
      auth: 'none',
      summary: 'Decides, forwards and records one ActionRequest; `action.params.stream: true` answers with the raw event stream.',
      take: runDirect,
    },
  ];
}
