/** What a bootstrap token says (decision 13.7). */
export interface BootstrapToken {
  /** All of it: this is shown to the control plane. */
  readonly text: string;
  /** SHA-256 of the DER of the control plane's CA; undefined: the token does not say. */
  readonly caSha256: Buffer | undefined;
}

const FORM = /^gwb_[A-Za-z0-9_-]{16,}(?:\.([A-Za-z0-9_-]{43}))?$/;

/** @returns undefined for what is no bootstrap token */
export function readBootstrapToken(text: string): BootstrapToken | undefined {
  const match = FORM.exec(text);
  if (match === null) return undefined;
  return { text, caSha256: match[1] === undefined ? undefined : Buffer.from(match[1], 'base64url') };
}
