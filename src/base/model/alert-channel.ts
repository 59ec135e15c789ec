import type { Authority } from './arrival.ts';
import type { BudgetLevel } from './budget-limit.ts';
import type { FailureReason } from './export-destination.ts';

/** Chats that alerts go to by webhook; also named `chat_1` to `chat_4`, in this order. */
export const CHAT_KINDS = ['slack', 'teams', 'discord', 'google_chat'] as const;
export type ChatKind = (typeof CHAT_KINDS)[number];

export const CHANNEL_KINDS = [...CHAT_KINDS, 'email'] as const;
export type ChannelKind = (typeof CHANNEL_KINDS)[number];

/** How a chat is spoken to as an app, whose messages can be changed (Slack). The token is a secret. */
export interface BotConfig {
  readonly bot_token: string;
  /** Where its messages go: the id or the name of a channel. */
  readonly channel: string;
  /** Where its methods are; absent: at Slack. */
  readonly api_url?: string;
}

/** What a channel is reached by. The URL and the token are secrets, addresses are not. */
export type ChannelConfig = { readonly webhook_url: string } | BotConfig | { readonly to_addresses: readonly string[] };

/** Where alerts of an org go (specification, "Alert channel"). */
export interface AlertChannel {
  readonly channel_id: string;
  readonly org_id: string;
  readonly name: string;
  readonly kind: ChannelKind;
  /** As it is shown: a secret is a run of bullets, but in the answer to what made it. */
  readonly config: ChannelConfig;
  readonly enabled: boolean;
  readonly created_at: string;
}

/**
 * What can be subscribed to beside the alerts of a budget limit (decision 11.1); `budget_alert`: those of all limits of
 * the org, and of caps that rules and delegations set.
 */
export const ALERT_EVENTS = ['approval', 'quarantine', 'risk_alert', 'budget_alert'] as const;
export type AlertEventName = (typeof ALERT_EVENTS)[number];

/**
 * What a channel is told of (specification, "Alert subscription"): of a budget limit, or of an event; one of both is
 * there.
 */
export interface AlertSubscription {
  readonly subscription_id: string;
  readonly org_id: string;
  readonly channel_id: string;
  readonly limit_id?: string;
  readonly event?: AlertEventName;
  readonly enabled: boolean;
  /** Null: never. */
  readonly last_alerted_at: string | null;
  readonly last_alerted_level: string | null;
  readonly created_at: string;
}

/** What became of one alert of one subscription. */
export interface AlertHistoryEntry {
  /** UUIDv7. */
  readonly alert_id: string;
  readonly org_id: string;
  readonly subscription_id: string | null;
  readonly channel_id: string;
  readonly channel_name: string;
  readonly channel_kind: ChannelKind;
  readonly limit_id?: string;
  readonly event: AlertEventName | 'test';
  /** `warning`, `critical` or `exceeded`; of other events none. */
  readonly level?: BudgetLevel;
  readonly title: string;
  readonly outcome: 'delivered' | 'failed';
  /** Of a failure. */
  readonly reason?: FailureReason;
  /** What came back, or why nothing did. */
  readonly detail?: string;
  readonly attempts: number;
  /** A person asked for it to see whether it arrives. */
  readonly test?: true;
  readonly at: string;
}

/** The mail server that alerts go by (`GW_SMTP_URL`). */
export interface SmtpServer {
  readonly authority: Authority;
  /** `implicit`: from the first byte; `starttls`: before anything else is said; `none`: not at all. */
  readonly tls: 'implicit' | 'starttls' | 'none';
  readonly user?: string;
  readonly password?: string;
}
