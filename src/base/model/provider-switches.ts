/** What an org has said of whose keys its calls to a provider may carry, by connector id. */
export interface ProviderSwitches {
  /** Callers' own keys are not taken. */
  readonly byokOff: ReadonlySet<string>;
  /** The caller's own Authorization goes ahead of a stored credential, or does not, whatever `GW_OAUTH_PASSTHROUGH` says. */
  readonly oauthOn: ReadonlySet<string>;
  readonly oauthOff: ReadonlySet<string>;
}

const NOBODY: ReadonlySet<string> = new Set();

/** Of an org that has said nothing: callers' keys are taken, and `GW_OAUTH_PASSTHROUGH` counts. */
export const NO_SWITCHES: ProviderSwitches = Object.freeze({ byokOff: NOBODY, oauthOn: NOBODY, oauthOff: NOBODY });
