import { readFileSync } from 'node:fs';
import { rootCertificates } from 'node:tls';
import type { Config } from '../base/config/config.ts';
import { ownOrigin } from '../base/config/own-origin.ts';
import type { Environment } from '../base/config/settings-reader.ts';
import { shellVariable } from '../base/config/settings-reader.ts';
import { codeOf, messageOf } from '../base/lib/gateway-error.ts';
import { chainOf, covers } from '../inbound/ca/own-certificate.ts';
import { type CliIo, Unusable, UsageError } from './command.ts';
import { isRunning } from './gateways/remembered-gateways.ts';
import type { GatewaySettings } from './settings-of.ts';

/** What a command trusts when it asks a gateway by https. */
interface Trust {
  readonly ca: string[];
  readonly allowPartialTrustChain: true;
}

/** Where a gateway is, and what is trusted to be it (decision 12.1). */
export class GatewayAddress extends URL {
  /** Undefined: what the runtime trusts. */
  readonly trust: Trust | undefined;
  /** What a person is told when nobody answers; undefined: nothing is known of this gateway. */
  readonly hint: string | undefined;

  /**
   * @throws UsageError for the port 0, in the place of which the default port of the protocol would be asked; Unusable
   * when `GW_TLS_CERT_FILE` cannot be read
   */
  constructor(text: string, settings: Pick<GatewaySettings, 'tlsCertFile' | 'found'>, env?: Environment) {
    super(text);
    if (this.port === '0') throw new UsageError(PICKED);
    this.trust = this.protocol === 'https:' ? trustOf(settings, env) : undefined;
    this.hint = hintOf(settings.found);
  }

  /** The same host with another port. */
  withPort(port: number): GatewayAddress {
    if (port === 0) throw new UsageError(PICKED.replace('GW_PORT', 'GW_MGMT_PORT'));
    const other = Object.assign(new GatewayAddress(this.href, { tlsCertFile: undefined }), { trust: this.trust, hint: this.hint });
    other.port = String(port);
    return other;
  }
}

/** Where a gateway with these settings listens. @throws Unusable when `GW_TLS_CERT_FILE` cannot be read */
export function ownAddress(config: GatewaySettings, env?: Environment): GatewayAddress {
  return new GatewayAddress(ownOriginHere(config, config.port), config, env);
}

/** The same as text, with a port that was given. @throws Unusable when `GW_TLS_CERT_FILE` cannot be read */
export function ownOriginHere(config: Config, port: number): string {
  const { tlsCertFile } = config;
  if (tlsCertFile === undefined) return ownOrigin(config, port);
  const [leaf] = certificatesOf(tlsCertFile);
  return ownOrigin(config, port, (host) => covers(leaf, host));
}

/** @throws UsageError; Unusable when `GW_TLS_CERT_FILE` cannot be read */
export function parseGatewayUrl(
  text: string,
  settings: Pick<GatewaySettings, 'tlsCertFile' | 'found'>,
  io: Pick<CliIo, 'env'>,
  option = '--url',
): GatewayAddress {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol))
    throw new UsageError(`${option} takes the address of a gateway, such as http://127.0.0.1:7080`);
  return new GatewayAddress(text, settings, io.env);
}

/** Why a gateway could not be asked, with what to do about it where that is known. */
export function askFailure(gateway: URL, error: unknown): string {
  const code = codeOf(error);
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return `its certificate is not for ${gateway.hostname} (${namesIn(error)}): ask it by a name of its certificate`;
  if (UNTRUSTED.has(code))
    return `its certificate is not trusted here (${messageOf(error)}): set GW_TLS_CERT_FILE as for the gateway, or NODE_EXTRA_CA_CERTS to the certificate of its issuer`;
  if (NO_TLS.has(code)) return 'it does not speak TLS: ask it by http://';
  return messageOf(error);
}

const PICKED = 'GW_PORT is 0, so the gateway picked a port itself, which its first lines say: give its address with --url';

function hintOf(found: GatewaySettings['found']): string | undefined {
  if (found === undefined) return undefined;
  return endedText(found) ?? `the gateway of ${found.gateway.folder} should be there; gw status says more`;
}

/**
 * What a person is told of a gateway that has ended as far as is noted, and of which programs would find nobody;
 * undefined of one that runs.
 */
export function endedText(found: GatewaySettings['found']): string | undefined {
  if (found === undefined || isRunning(found.gateway)) return undefined;
  const { gateway } = found;
  const state = gateway.stopped_at === undefined ? 'is not running' : `was stopped at ${gateway.stopped_at}`;
  return `the gateway of ${gateway.folder} ${state}: gw start in that folder starts it again, gw status says which there are`;
}

const UNTRUSTED: ReadonlySet<string> = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);
const NO_TLS: ReadonlySet<string> = new Set(['EPROTO', 'ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG']);

function namesIn(error: unknown): string {
  const certificate: unknown = error instanceof Error ? Reflect.get(error, 'cert') : undefined;
  const names: unknown = typeof certificate === 'object' && certificate !== null ? Reflect.get(certificate, 'subjectaltname') : undefined;
  return typeof names === 'string' ? names : 'it names none';
}

function trustOf({ tlsCertFile }: Pick<Config, 'tlsCertFile'>, env?: Environment): Trust | undefined {
  if (tlsCertFile === undefined) return undefined;
  const own = certificatesOf(tlsCertFile).map((certificate) => certificate.toString());
  // What is given here takes the place of what the runtime has from that variable.
  const extra = shellVariable('NODE_EXTRA_CA_CERTS', env);
  return { ca: [...rootCertificates, ...own, ...(extra === undefined ? [] : [readableText(extra)])], allowPartialTrustChain: true };
}

function certificatesOf(file: string): ReturnType<typeof chainOf> {
  try {
    return chainOf(file, readFileSync(file, 'latin1'));
  } catch (error) {
    const message = codeOf(error) === '' ? messageOf(error) : `GW_TLS_CERT_FILE: ${file} cannot be read (${codeOf(error)})`;
    throw new Unusable(message, { cause: error });
  }
}

/** As the runtime does, which says nothing about a file that it cannot read. */
function readableText(file: string): string {
  try {
    return readFileSync(file, 'latin1');
  } catch {
    return '';
  }
}
