import type { JsonObject } from '../base/json/json-object.ts';
import { CREDENTIAL_MODES, CREDENTIAL_TYPES, DISTRIBUTIONS } from '../base/model/keys.ts';
import type { RemoteWrite } from '../link/handed-on-writes.ts';
import type { CredentialChange } from '../services/people/credentials.ts';
import type { ShownCredential } from '../services/people/stored-credential.ts';
import type { Watched } from './hand-on.ts';
import type { OperationServices } from './services.ts';

/** A credential as the control plane takes it: its secret stands apart. */
export function writtenCredential({ secret_ref: secret, ...body }: CredentialChange): RemoteWrite['entries'][number] {
  return { id: body.credential_id, body, secret };
}

export function watchedCredential(id: string, { credentials }: OperationServices): Watched {
  return { entity: 'credential', object: id, show: () => credentials.service.named(id, undefined) };
}

/** As it is here; where it is for other nodes alone, as the control plane has it. */
export function shownHere(id: string, { credentials }: OperationServices, stored: JsonObject | undefined): ShownCredential {
  return credentials.service.named(id, undefined) ?? storedCredential(stored);
}

/** A credential as the control plane shows it. @throws TypeError for what is none */
export function storedCredential(stored: JsonObject | undefined): ShownCredential {
  const text = (name: string): string => {
    const value = stored?.[name];
    if (typeof value !== 'string') throw new TypeError(`the control plane has answered with a credential without ${name}`);
    return value;
  };
  const one = <T extends string>(name: string, words: readonly T[]): T => {
    const value = words.find((word) => word === text(name));
    if (value === undefined) throw new TypeError(`the control plane has answered with a credential whose ${name} is not known`);
    return value;
  };
  const texts = (name: 'target_hosts' | 'node_ids'): { readonly [K in typeof name]?: readonly string[] } => {
    const value = stored?.[name];
    return Array.isArray(value) ? { [name]: value.map(String) } : {};
  };
  const optionally = (name: 'org_id' | 'name' | 'billing_owner') => (stored?.[name] === undefined ? {} : { [name]: text(name) });
  return {
    credential_id: text('credential_id'),
    ...optionally('org_id'),
    connector_id: text('connector_id'),
    mode: one('mode', CREDENTIAL_MODES),
    type: one('type', CREDENTIAL_TYPES),
    distribution: one('distribution', DISTRIBUTIONS),
    ...optionally('name'),
    ...optionally('billing_owner'),
    ...texts('target_hosts'),
    ...texts('node_ids'),
    created_at: text('created_at'),
    updated_at: text('updated_at'),
    secret_source: one('secret_source', ['stored', 'environment', 'none']),
  };
}
