import { type Clock, pause, retryDelay, timestamp } from '../../../base/lib/clock.ts';
import type { Logger } from '../../../base/lib/log.ts';
import { readWebAddress, type WebAddress } from '../../../base/lib/web-address.ts';
import type { Approval } from '../../../base/model/approval.ts';
import { CONTROL_BOUNDS } from '../../../base/model/org-bounds.ts';
import { answerSlackClick } from '../../../outbound/destinations/chat-webhooks.ts';
import { deliveryError } from '../../../outbound/destinations/delivery-error.ts';
import { slackMessage } from '../../../outbound/destinations/slack-message.ts';
import type { WayOut } from '../../../outbound/destinations/way-out.ts';
import type { OpenChannel } from './alert-channels.ts';
import { approvalSaid } from './approval-cards.ts';
import type { GatewayPlace } from './card-parts.ts';

/** Slack takes five answers to a click, within half an hour (its guide to handling interactions). */
const MAX_TRIES = 3;
/** Of Slack, and of its cloud for governments. */
const SLACK_HOSTS: ReadonlySet<string> = new Set(['hooks.slack.com', 'hooks.slack-gov.com']);
const HTTPS_PORT = 443;
/** Slack's limit of a text. */
const TEXT = 3_000;

export interface ClickAnswersOptions {
  readonly door: WayOut;
  readonly clock: Clock;
  readonly log: Logger;
  readonly mayBePlain: (host: string) => boolean;
  readonly place: GatewayPlace;
  /** An approval as it is now; undefined: there is none any more. */
  readonly approval: (id: string) => Promise<Approval | undefined>;
  /** Channels of an org. */
  readonly channels: (orgId: string) => readonly OpenChannel[];
}

/** A click, as far as its answer needs to know of it. */
export interface Clicked {
  /** Whose approval it is about; undefined: of none that is known. */
  readonly orgId: string | undefined;
  /** Where Slack wants the answer. */
  readonly responseUrl: string | undefined;
}

/**
 * What those are told who press a button in Slack: a message for them alone, or another one in the place of that with
 * the button. An answer that is lost loses nothing: the next click is answered again.
 */
export class ClickAnswers {
  readonly #options: ClickAnswersOptions;
  readonly #ending = new AbortController();
  readonly #underWay = new Set<Promise<void>>();

  constructor(options: ClickAnswersOptions) {
    this.#options = options;
  }

  /**
   * For who has pressed it alone.
   * @param text ours, of which each link is `<address|text>`; what strangers chose is shown before (`shownText`)
   */
  tell(clicked: Clicked, text: string): void {
    const body = { response_type: 'ephemeral', replace_original: false, text: text.slice(0, TEXT) };
    this.#send(clicked, () => Promise.resolve(body));
  }

  /**
   * In the place of the message with the button: what has become of its approval. It is read anew for each try, so that
   * a late one does not undo what was told since.
   */
  replace(clicked: Clicked, approval: Approval): void {
    const { clock, place, approval: asItIs } = this.#options;
    this.#send(clicked, async () => {
      const now = (await asItIs(approval.approval_id)) ?? approval;
      const card = { ...approvalSaid(now, place), alertId: approval.approval_id, at: timestamp(clock.now()) };
      return { replace_original: true, ...(slackMessage(card) as object) };
    });
  }

  /** Resolves when nothing is under way. */
  async close(): Promise<void> {
    this.#ending.abort();
    await Promise.all(this.#underWay);
  }

  #send(clicked: Clicked, body: () => Promise<object>): void {
    const { log } = this.#options;
    const to = this.#addressOf(clicked);
    if (to === undefined || this.#underWay.size >= CONTROL_BOUNDS.clickAnswers.all) {
      const why = to === undefined ? 'its address is not one of Slack' : 'too many answers are under way';
      log.warn({ org_id: clicked.orgId, why }, 'a click in a chat could not be answered');
      return;
    }
    const sending = this.#tried(to, body).finally(() => this.#underWay.delete(sending));
    this.#underWay.add(sending);
  }

  /** Never rejects. */
  async #tried(to: WebAddress, body: () => Promise<object>): Promise<void> {
    const { clock, log } = this.#options;
    const { signal } = this.#ending;
    for (let tries = 1; !signal.aborted; tries += 1) {
      try {
        await answerSlackClick(this.#options, to, await body(), signal);
        return;
      } catch (error) {
        const { reason, retryable } = deliveryError(error);
        if (!retryable || tries === MAX_TRIES) {
          if (!signal.aborted) log.warn({ reason, tries }, 'a click in a chat could not be answered');
          return;
        }
        await pause(clock, retryDelay(tries - 1), signal);
      }
    }
  }

  /** Slack, or where a Slack channel of that org leads anyhow; undefined: anything else. */
  #addressOf({ orgId, responseUrl = '' }: Clicked): WebAddress | undefined {
    const { mayBePlain, channels } = this.#options;
    const to = readWebAddress(responseUrl, mayBePlain);
    if (typeof to === 'string') return undefined;
    const { host, port } = to.authority;
    if (to.tls && port === HTTPS_PORT && SLACK_HOSTS.has(host)) return to;
    const own = (orgId === undefined ? [] : channels(orgId)).filter(({ kind, enabled }) => kind === 'slack' && enabled);
    const isOwn = own.some(({ config }) => {
      const known = readWebAddress(urlOf(config), mayBePlain);
      return typeof known !== 'string' && known.tls === to.tls && known.authority.host === host && known.authority.port === port;
    });
    return isOwn ? to : undefined;
  }
}

function urlOf(config: OpenChannel['config']): string {
  if (config === undefined) return '';
  if ('webhook_url' in config) return config.webhook_url;
  return 'api_url' in config ? (config.api_url ?? '') : '';
}
