import { type Clock, timestamp } from '../../base/lib/clock.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import type { Commit } from '../../services/registers/commit.ts';
import type { Effect, Expectation, Store } from '../../storage/contract/store.ts';
import { makeBootstrapToken } from '../pki/bootstrap-token.ts';
import { SPACE } from './control-plane-spaces.ts';
import type { IssuedToken } from './control-plane-state.ts';

/** Tokens that are looked at for their age whenever one is made. */
const SWEPT = 500;

interface StoredToken {
  readonly org_id: string;
  readonly expires_at: string;
  readonly used_at?: string;
}

/** What uses a token up, in the commit of the enrolment that it lets in. */
export interface TokenUse {
  readonly effects: readonly Effect[];
  readonly expect: readonly Expectation[];
}

export interface BootstrapTokensOptions {
  readonly store: Store;
  readonly clock: Clock;
  /** Certificate of the CA that the control plane shows now, DER. */
  readonly ca: () => Uint8Array;
  /** False while the clock is in doubt: then nothing is removed for its age. */
  readonly mayExpire: () => boolean;
}

/** Bootstrap tokens, each for one enrolment; only their SHA-256 is kept (decision 13.7). */
export class BootstrapTokens {
  readonly #options: BootstrapTokensOptions;

  constructor(options: BootstrapTokensOptions) {
    this.#options = options;
  }

  async issue(orgId: string, ttlSeconds: number, commit: Commit): Promise<IssuedToken> {
    const token = makeBootstrapToken(this.#options.ca());
    const stored: StoredToken = { org_id: orgId, expires_at: timestamp(this.#options.clock.now() + ttlSeconds * 1_000) };
    const expired = await this.#expired();
    await commit(orgId, [
      { op: 'put', space: SPACE.tokens, key: sha256Hex(token), value: stored },
      ...expired.map((key) => ({ op: 'delete', space: SPACE.tokens, key }) as const),
    ]);
    return { token, expires_at: stored.expires_at };
  }

  /**
   * What uses this token up; undefined when it cannot be used: it is not known, was used, has expired, or is of another
   * org.
   */
  async use(token: string, orgId: string): Promise<TokenUse | undefined> {
    const key = sha256Hex(token);
    const found = await this.#options.store.entity(SPACE.tokens, key);
    const stored = found?.value as StoredToken | undefined;
    const now = this.#options.clock.now();
    if (stored?.org_id !== orgId || stored.used_at !== undefined || Date.parse(stored.expires_at) <= now) return undefined;
    return {
      effects: [{ op: 'put', space: SPACE.tokens, key, value: { ...stored, used_at: timestamp(now) } }],
      expect: [{ space: SPACE.tokens, key, version: found?.version }],
    };
  }

  async #expired(): Promise<readonly string[]> {
    if (!this.#options.mayExpire()) return [];
    const now = this.#options.clock.now();
    const rows = await this.#options.store.list(SPACE.tokens, { limit: SWEPT });
    return rows.filter(({ value }) => Date.parse((value as StoredToken).expires_at) <= now).map(({ key }) => key);
  }
}
