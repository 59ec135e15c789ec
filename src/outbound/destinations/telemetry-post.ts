import type { Clock } from '../../base/lib/clock.ts';
import type { WebAddress } from '../../base/lib/web-address.ts';
import type { SendReport } from '../../base/model/telemetry-report.ts';
import { deliveryError } from './delivery-error.ts';
import { askedPause, whatCameBack } from './post-answer.ts';
import type { WayOut } from './way-out.ts';

/** A way out for usage reports: one POST each, any 2xx is success, no redirect is followed (decision 12.6). */
export function postReports({ door, clock }: { readonly door: WayOut; readonly clock: Clock }, to: WebAddress): SendReport {
  const headers = ['content-type', 'application/json', 'accept', 'application/json'];
  return async (report, signal) => {
    try {
      const answer = await door.post({ to, headers, body: JSON.stringify(report), signal });
      const delivered = answer.status >= 200 && answer.status <= 299;
      return {
        delivered,
        detail: delivered ? `HTTP ${answer.status}` : whatCameBack(answer, to),
        pauseMs: askedPause(answer, clock.now()),
      };
    } catch (error) {
      return { delivered: false, detail: deliveryError(error).message, pauseMs: undefined };
    }
  };
}
