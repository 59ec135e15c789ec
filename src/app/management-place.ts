import type { Config } from '../base/config/config.ts';
import { bracketHost } from '../base/lib/host.ts';
import { isLoopbackHost } from '../base/lib/loopback-host.ts';
import type { BoundPort } from '../inbound/listener/listener.ts';
import type { GatewayPlace } from '../services/alerts/alert-cards.ts';

/** Where people reach the management API, for what alerts tell them (decision 11.4). Asked for each alert, because the ports are known only when they are open. */
export class ManagementPlace implements GatewayPlace {
  readonly #config: Pick<Config, 'publicUrl' | 'publicNames'>;
  #address: string;
  #port: number;

  constructor(config: Pick<Config, 'publicUrl' | 'publicNames' | 'host' | 'port' | 'mgmtPort'>) {
    this.#config = config;
    this.#address = config.host;
    this.#port = config.mgmtPort ?? config.port;
  }

  get url(): string {
    const { publicUrl, publicNames } = this.#config;
    const here = this.#address;
    const [name = here === '0.0.0.0' || here === '::' ? 'localhost' : here] = publicNames;
    return publicUrl ?? this.#at(name);
  }

  get pages(): string | undefined {
    const { publicUrl } = this.#config;
    if (publicUrl !== undefined) return publicUrl;
    return isLoopbackHost(this.#address) && this.#port !== 0 ? this.#at(this.#address) : undefined;
  }

  /** The ports are open. */
  bound(places: readonly BoundPort[]): void {
    const own = places.find(({ trafficClass }) => trafficClass === undefined);
    const place = own ?? places.find(({ trafficClass }) => trafficClass === 'developer');
    if (place === undefined) return;
    this.#address = place.address;
    this.#port = place.port;
  }

  #at(host: string): string {
    return `http://${bracketHost(host)}:${this.#port}`;
  }
}
