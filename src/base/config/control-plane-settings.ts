import { isLoopbackHost } from '../lib/host.ts';
import { LOG_FORMATS, LOG_LEVELS } from '../lib/log-forms.ts';
import { readWebAddress, type WebAddress } from '../lib/web-address.ts';
import * as type from './setting-types.ts';
import { optional, required, type Setting, secret } from './setting-types.ts';

const certificateNames: type.SettingType<readonly string[]> = {
  name: 'list of hosts',
  allowed: 'comma-separated host names and addresses, at least one',
  parse(text) {
    const names = [...type.hostNames.parse(text)];
    if (names.length === 0) throw new RangeError('not allowed');
    return names;
  },
};

const authorityUrl: type.SettingType<WebAddress> = {
  name: 'URL',
  allowed: 'an `http` or `https` URL without a user',
  parse(text) {
    // What comes is signed, so that plain HTTP, which most authorities speak, harms nothing.
    const address = readWebAddress(text, () => true, true);
    if (typeof address === 'string') throw new RangeError('not allowed');
    return address;
  },
};

const logUrl: type.SettingType<WebAddress> = {
  name: 'URL',
  allowed: 'an `https` URL without a user, or `http` to this machine',
  parse(text) {
    const address = readWebAddress(text, isLoopbackHost, true);
    if (typeof address === 'string') throw new RangeError('not allowed');
    return address;
  },
};

/** The first part of what names a log: no spaces, no plus (C2SP signed-note), nothing that a path would not hold. */
const ledgerName: type.SettingType<string> = {
  name: 'name',
  allowed: 'host and path without scheme, such as `ledger.example.com`, at most 128 characters',
  parse(text) {
    if (!/^[A-Za-z0-9](?:[A-Za-z0-9._~:/-]{0,126}[A-Za-z0-9])?$/.test(text)) throw new RangeError('not allowed');
    return text;
  },
};

const MOST_WITNESSES = 16;
const witnessKeys: type.SettingType<readonly string[]> = {
  name: 'list of verifier keys',
  allowed: `verifier keys (\`name+id+key\`, type 4) separated by commas or line ends, at most ${MOST_WITNESSES}`,
  list: true,
  parse(text) {
    const keys = text.split(/[,\s]+/).filter((key) => key !== '');
    if (keys.length > MOST_WITNESSES) throw new RangeError(`there are ${keys.length}`);
    return keys;
  },
};

/**
 * The settings of `gw control-plane start`, keyed by the member of `ControlPlaneSettings`: the variable in camel case
 * without `CP_`.
 */
export const CONTROL_PLANE_SETTINGS = {
  host: required('CP_HOST', type.bindHost, '127.0.0.1', 'Bind address of both ports. Gateways on other machines need one that they reach.'),
  grpcPort: required(
    'CP_GRPC_PORT',
    type.integer(0, 65_535),
    '7443',
    'Port of the protocol that gateways speak (TLS); `0` picks a free one.',
  ),
  httpPort: required(
    'CP_HTTP_PORT',
    type.integer(0, 65_535),
    '7444',
    'Port of the admin API, health and metrics (plain HTTP); `0` picks a free one.',
  ),
  dataDir: required('CP_DATA_DIR', type.folder, './control-plane-data', 'Folder of everything that it keeps: store, ledger, CA and keys.'),
  adminToken: secret(
    'CP_ADMIN_TOKEN',
    type.token,
    'Token of the admin API, sent as `CP-Admin-Token`.',
    'generated on first start, kept in the data folder (`admin-token`)',
  ),
  secretsKey: secret(
    'CP_SECRETS_KEY',
    type.secretsKey,
    'Encrypts stored credentials, and what is secret of export destinations, at rest (AES-256-GCM): 32 bytes in base64.',
    'generated on first start, kept in the data folder',
  ),
  metricsToken: secret('CP_METRICS_TOKEN', type.token, 'When set, `/metrics` needs it as a bearer token.'),
  names: required(
    'CP_NAMES',
    certificateNames,
    'localhost,127.0.0.1',
    'Names and addresses in its server certificate: the host of `GW_CP_ADDR` must be one of them. By these browsers and clients may address the admin API, too.',
  ),
  auditRetention: required('CP_AUDIT_RETENTION', type.duration('1d', '36500d'), '400d', 'Age at which audit entries are removed.'),
  drainTimeout: required(
    'CP_DRAIN_TIMEOUT',
    type.duration('0', '1h'),
    '10s',
    'How long running calls may take to end after SIGTERM; what is left then is cut.',
  ),
  tsaUrl: optional('CP_TSA_URL', authorityUrl, 'A time-stamp authority (RFC 3161) that stamps signed roots. Unset: none is asked.'),
  tsaInterval: required(
    'CP_TSA_INTERVAL',
    type.duration('1m', '30d'),
    '1h',
    'How often the newest root of each org is stamped; the first is stamped at once.',
  ),
  tsaCaFile: optional(
    'CP_TSA_CA_FILE',
    type.certificateFile,
    'PEM certificates of the authorities whose stamps are taken. Unset: a stamp is taken from whoever answers at `CP_TSA_URL`.',
  ),
  rekorUrl: optional(
    'CP_REKOR_URL',
    logUrl,
    'A transparency log that speaks the API of Rekor, version 1, in which signed roots are entered (their hashes, the signature and the public key of the ledger; never a root itself). Unset: in none.',
  ),
  rekorPublicKeyFile: optional(
    'CP_REKOR_PUBLIC_KEY_FILE',
    type.publicKeyFile,
    'PEM public keys of that log, got from whoever runs it; needed with `CP_REKOR_URL`. What is not signed by one of them is not kept.',
  ),
  rekorInterval: required(
    'CP_REKOR_INTERVAL',
    type.duration('1m', '30d'),
    '1h',
    'How often the newest root of each org is entered; the first is entered at once.',
  ),
  ledgerName: optional(
    'CP_LEDGER_NAME',
    ledgerName,
    'Names the ledgers of this control plane in checkpoints, whose origin is `NAME/orgs/ORG`. Set it once: to witnesses another name is another log.',
    'the `kid` of the first ledger key',
  ),
  checkpointInterval: required(
    'CP_CHECKPOINT_INTERVAL',
    type.duration('1s', '1d'),
    '5m',
    'How long a checkpoint of an org stays the published one: witnesses that look at least as often cosign the same.',
  ),
  witnessKeys: required('CP_WITNESS_KEYS', witnessKeys, '', 'Witnesses whose cosignatures of checkpoints are taken.'),
  logLevel: required('CP_LOG_LEVEL', type.choice(LOG_LEVELS), 'info', 'Lowest level that is written.'),
  logFormat: required('CP_LOG_FORMAT', type.choice(LOG_FORMATS), 'json', 'Form of the log.', '`json`; `pretty` on a terminal'),
} as const satisfies Record<string, Setting<unknown>>;

type ValueOfSetting<S> = S extends Setting<infer T> ? T : never;

/**
 * Every setting of the control plane as a value that is ready to use: durations in milliseconds, the folder absolute,
 * names canonical.
 */
export type ControlPlaneSettings = {
  readonly [K in keyof typeof CONTROL_PLANE_SETTINGS]: ValueOfSetting<(typeof CONTROL_PLANE_SETTINGS)[K]>;
};
