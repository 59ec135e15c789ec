import type { Authority } from './arrival.ts';

/** The mail server that alerts go by (`GW_SMTP_URL`). */
export interface SmtpServer {
  readonly authority: Authority;
  /** `implicit`: from the first byte; `starttls`: before anything else is said; `none`: not at all. */
  readonly tls: 'implicit' | 'starttls' | 'none';
  readonly user?: string;
  readonly password?: string;
}
