import type { Config } from '../base/config/config.ts';
import { originOf, ownOrigin } from '../base/config/own-origin.ts';
import { isLoopbackHost } from '../base/lib/host.ts';
import { buttonValue } from '../base/lib/slack-signature.ts';
import type { BoundPort } from '../inbound/listener/listener.ts';
import type { GatewayPlace } from '../services/sending/alerts/card-parts.ts';

interface OwnCertificateNames {
  readonly current: { covers(host: string): boolean };
}

/**
 * Where people reach the management API, for what alerts tell them (decision 11.4). Asked for each alert, because the
 * ports are known only when they are open.
 */
export class ManagementPlace implements GatewayPlace {
  readonly #config: Pick<Config, 'publicUrl' | 'publicNames' | 'tlsCertFile' | 'mgmtPort'>;
  readonly buttonsFor: GatewayPlace['buttonsFor'];
  readonly #certificate: OwnCertificateNames | undefined;
  #address: string;
  #port: number;
  #callerPort: number;

  /** @param certificate of the ports; undefined: they speak plain HTTP */
  constructor(
    config: Pick<Config, 'publicUrl' | 'publicNames' | 'tlsCertFile' | 'host' | 'port' | 'mgmtPort' | 'slackSigningSecret'>,
    certificate?: OwnCertificateNames,
  ) {
    this.#config = config;
    this.#certificate = certificate;
    this.#address = config.host;
    this.#port = config.mgmtPort ?? config.port;
    this.#callerPort = config.port;
    const { slackSigningSecret: secret } = config;
    const made = (key: string) => (id: string) => ({ approve: buttonValue(key, id, 'approved'), deny: buttonValue(key, id, 'denied') });
    this.buttonsFor = secret === undefined ? undefined : made(secret);
  }

  /** Where callers reach the gateway's own port. */
  get forCallers(): string {
    const { publicUrl, mgmtPort } = this.#config;
    if (publicUrl !== undefined && mgmtPort === undefined) return publicUrl;
    return originOf(this.#scheme, this.#name, this.#callerPort);
  }

  get url(): string {
    return this.#config.publicUrl ?? originOf(this.#scheme, this.#name, this.#port);
  }

  get pages(): string | undefined {
    const { publicUrl } = this.#config;
    if (publicUrl !== undefined) return publicUrl;
    return isLoopbackHost(this.#address) && this.#port !== 0
      ? ownOrigin({ ...this.#config, host: this.#address, publicNames: new Set() }, this.#port, this.#covers)
      : undefined;
  }

  /** The ports are open. */
  bound(places: readonly BoundPort[]): void {
    const own = places.find(({ trafficClass }) => trafficClass === undefined);
    const developer = places.find(({ trafficClass }) => trafficClass === 'developer');
    const place = own ?? developer;
    if (developer !== undefined) this.#callerPort = developer.port;
    if (place === undefined) return;
    this.#address = place.address;
    this.#port = place.port;
  }

  get #name(): string {
    const here = this.#address;
    const [name = here === '0.0.0.0' || here === '::' ? 'localhost' : here] = this.#byCertificate(this.#config.publicNames);
    return name;
  }

  get #scheme(): 'http' | 'https' {
    return this.#config.tlsCertFile === undefined ? 'http' : 'https';
  }

  get #covers(): ((host: string) => boolean) | undefined {
    const certificate = this.#certificate;
    return certificate && ((host) => certificate.current.covers(host));
  }

  /** Names that the certificate of the ports is for stand first. */
  #byCertificate(names: Iterable<string>): readonly string[] {
    const all = [...names];
    const covered = all.filter((name) => this.#covers?.(name) === true);
    return [...covered, ...all];
  }
}
