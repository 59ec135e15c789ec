import { messageOf } from '../base/lib/gateway-error.ts';
import type { SendReport } from '../base/model/telemetry-report.ts';
import type { Channel } from './link-ports.ts';

/**
 * Usage reports on their way through the channel (specification, "Usage telemetry"; decision 13.10). A report that
 * fails is over.
 */
export class ChannelTelemetry {
  #channel: Channel | undefined;
  /** The longest pause that was asked for: the control plane makes it longer, and never shorter again. */
  #pauseMs = 0;

  /** From now on reports go there. */
  attach(channel: Channel): void {
    this.#channel = channel;
  }

  readonly send: SendReport = async (report) => {
    try {
      if (this.#channel === undefined) return this.#dropped('there is no contact with the control plane yet');
      const { interval_seconds: seconds } = await this.#channel.call('ReportTelemetry', { report: JSON.stringify(report) });
      this.#pauseMs = Math.max(this.#pauseMs, seconds * 1_000);
      return { delivered: true, detail: 'taken by the control plane', pauseMs: this.#pauseMs };
    } catch (error) {
      return this.#dropped(messageOf(error));
    }
  };

  #dropped(detail: string): Awaited<ReturnType<SendReport>> {
    return { delivered: false, detail, pauseMs: this.#pauseMs };
  }
}
