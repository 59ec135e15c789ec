import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Sealed } from '../../base/lib/secret-box.ts';
import type { Credential } from '../../base/model/keys.ts';
import { entityWith } from '../registers/watched-space.ts';

/** How a secret is named that an environment variable holds. */
export const ENV = 'env:';

/** A credential as the store keeps it. */
export interface StoredCredential {
  readonly credential: Credential;
  /** Name of the variable that holds the secret. */
  readonly env?: string;
  readonly sealed?: Sealed;
}

const withCredential = entityWith<StoredCredential>();
const credential = entityWith<Credential>('credential_id', 'connector_id');

/** Undefined: it is none. */
export function storedCredential(value: unknown): StoredCredential | undefined {
  const found = withCredential(value);
  return found !== undefined && credential(found.credential) !== undefined ? found : undefined;
}

/** A credential whose secret is open in memory. */
export interface OpenedCredential extends StoredCredential {
  /** Undefined: it has none, or it cannot be read. */
  readonly secret: string | undefined;
}

/** A credential as it is shown: never its secret, only where that comes from. */
export type ShownCredential = Credential & { readonly secret_source: 'stored' | 'environment' | 'none' };

/**
 * Whether the gateway has a key of its own to put in: with mode `byok` the caller brings one, whatever is stored
 * (decision 6.10).
 */
export function isAlias({ credential, secret }: OpenedCredential): boolean {
  return secret !== undefined && credential.mode === 'alias';
}

/** @throws GatewayError `INVALID_ARGUMENT` for another distribution (decision 8.11) */
export function requireSame({ distribution }: Credential, asked: Credential['distribution']): void {
  if (asked !== distribution) throw new GatewayError('INVALID_ARGUMENT', 'The distribution of a credential is fixed when it is made.');
}

/** @throws GatewayError `INVALID_ARGUMENT` for one that is on every node (decision 8.11) */
export function requireScoped({ distribution }: Credential): void {
  if (distribution === 'org_wide')
    throw new GatewayError('INVALID_ARGUMENT', 'An org_wide credential is on every node; none can be assigned.');
}

/** Where its secret is. */
export function sourceOf(stored: StoredCredential | undefined): { env?: string; sealed?: Sealed } {
  return { ...(stored?.env === undefined ? {} : { env: stored.env }), ...(stored?.sealed ? { sealed: stored.sealed } : {}) };
}

/** Whether the secret of an entry is what `secretRef` names. */
export function saysSecret({ env, sealed, secret }: OpenedCredential, secretRef: string | undefined): boolean {
  if (secretRef === undefined) return env === undefined && sealed === undefined;
  if (secretRef.startsWith(ENV)) return env === secretRef.slice(ENV.length);
  return env === undefined && secret === secretRef;
}

/** Without its secret. */
export function shown({ credential, env, sealed }: StoredCredential): ShownCredential {
  return { ...credential, secret_source: env !== undefined ? 'environment' : sealed ? 'stored' : 'none' };
}

/** A mistake of one member. */
export function invalid(path: string, message: string): GatewayError {
  return new GatewayError('invalid_request', 'The credential is not valid.', { details: [{ path, message }] });
}
