import { z } from 'zod';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { isOwnToken, NO_PROVIDER_KEY } from '../base/lib/own-tokens.ts';
import { CREDENTIAL_MODES, CREDENTIAL_TYPES, DISTRIBUTIONS } from '../base/model/keys.ts';
import { type CredentialChange, isKeyText } from '../services/people/credentials.ts';
import { ALSO_WHEN_WRONG, choice, id, isId, members, optional, requiredId, ruled, text } from './members.ts';
import { readBody } from './read-input.ts';
import type { CredentialBodyContext } from './services.ts';

const MAX_SECRET = 65_536;
const MAX_HOSTS = 100;
const ENV_NAME = /^env:[A-Za-z_][A-Za-z0-9_]*$/;
const SECRET_RULE = 'must be a key as it stands in a header, or env:NAME';
const HOSTS_RULE = `must be a list of 1 to ${MAX_HOSTS} hosts`;

/** Asked when a body comes, not when its schema is made. */
interface Registry {
  readonly credentials: CredentialBodyContext;
}

interface CredentialParts {
  readonly connector: z.ZodString;
  readonly hosts: z.ZodOptional<z.ZodCustom<readonly unknown[], readonly unknown[]>>;
  readonly secret: z.ZodOptional<z.ZodString>;
}

const NO_CONNECTOR = 'must be a connector that takes a key, such as openai';

/** What a credential is made of, whatever its members are called. No message repeats a secret. */
export function credentialParts({ credentials }: Registry): CredentialParts {
  return {
    connector: requiredId().refine((name) => !isId(name) || credentials.keyedConnector(name) !== undefined, NO_CONNECTOR),
    hosts: ruled<readonly unknown[]>((value) => Array.isArray(value) && value.length > 0 && value.length <= MAX_HOSTS, HOSTS_RULE)
      .optional()
      .meta({
        type: 'array',
        items: { type: 'string' },
        minItems: 1,
        maxItems: MAX_HOSTS,
        description: 'Hosts of the connector that the secret may go to',
      }),
    secret: z
      .string(SECRET_RULE)
      .max(MAX_SECRET, SECRET_RULE)
      .refine((value) => isKeyText(value) && (!value.startsWith('env:') || ENV_NAME.test(value)), SECRET_RULE)
      .refine((value) => !isOwnToken(value), NO_PROVIDER_KEY)
      .optional()
      .meta({ description: 'The secret itself, or env:NAME' }),
  };
}

/** Places in a list of hosts of what is none of the connector. */
export function strangeHosts(named: unknown, hosts: unknown, { credentials }: Registry): readonly number[] {
  const connectorId = typeof named === 'string' ? (credentials.keyedConnector(named) ?? '') : '';
  if (!Array.isArray(hosts) || hosts.length > MAX_HOSTS) return [];
  return hosts.flatMap((host, at) => (typeof host === 'string' && credentials.coversHost(connectorId, host) ? [] : [at]));
}

export const STRANGE_HOST = 'is no host of the connector';

/** A Credential body, or one map of a credentials file. */
function credentialBody(registry: Registry) {
  const { connector, hosts, secret } = credentialParts(registry);
  return members({
    type: choice(CREDENTIAL_TYPES).optional(),
    distribution: choice(DISTRIBUTIONS).optional(),
    mode: choice(CREDENTIAL_MODES),
    connector_id: connector,
    target_hosts: hosts,
    credential_id: requiredId(),
    org_id: id.optional().meta({ description: 'Left out: for every org' }),
    name: text.optional(),
    billing_owner: text.optional(),
    secret_ref: secret,
  }).superRefine(({ connector_id: named, target_hosts: given }, { addIssue }) => {
    for (const at of strangeHosts(named, given, registry)) addIssue({ code: 'custom', path: ['target_hosts', at], message: STRANGE_HOST });
  }, ALSO_WHEN_WRONG);
}

/** A body of the API, whose hosts and connector are those of the registry. */
export const CREDENTIAL_BODY = {
  schema: (registry: Registry): ReturnType<typeof credentialBody> => credentialBody(registry),
  what: 'The credential',
};

export type CredentialBody = z.output<ReturnType<typeof credentialBody>>;

/** One map of a credentials file. @throws GatewayError `invalid_request`; no message repeats a secret */
export function parseCredential(body: unknown, context: CredentialBodyContext): CredentialChange {
  return credentialChange(readBody({ ...CREDENTIAL_BODY, schema: credentialBody({ credentials: context }) }, body), context);
}

/**
 * What a body that was checked asks the service for.
 * @param member what the connector is called in the body
 * @throws GatewayError `invalid_request` for a connector of another org than the credential's, in the words for one
 * that is not there
 */
export function credentialChange(
  body: CredentialBody,
  { keyedConnector }: Pick<CredentialBodyContext, 'keyedConnector'>,
  member = 'connector_id',
): CredentialChange {
  const connectorId = keyedConnector(body.connector_id, body.org_id);
  if (connectorId === undefined)
    throw new GatewayError('invalid_request', 'The credential has 1 bad member(s).', {
      details: [{ path: member, message: NO_CONNECTOR }],
    });
  const hosts = body.target_hosts?.filter((host) => typeof host === 'string');
  return {
    credential_id: body.credential_id,
    ...optional('org_id', body.org_id),
    connector_id: connectorId,
    mode: body.mode,
    ...optional('type', body.type),
    ...optional('distribution', body.distribution),
    ...optional('name', body.name),
    ...optional('billing_owner', body.billing_owner),
    ...optional('target_hosts', hosts),
    ...optional('secret_ref', body.secret_ref),
  };
}
