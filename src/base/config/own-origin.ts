import { bracketHost, isLoopbackHost } from '../lib/host.ts';
import type { Config } from './config.ts';

/** An address that means "all of mine" to bind is no address to connect to. */
export function reachableHost(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1';
  return host === '::' ? '::1' : host;
}

/**
 * Where and how a gateway with these settings is reached from its own machine: by https where its ports speak TLS
 * (decision 12.1), and then by a host that its certificate is for, as far as one of those that are known is.
 * @param covers whether the certificate is for a host; undefined: nobody can tell
 * @returns an origin without a slash at its end
 */
export function ownOrigin(
  { host: bound, publicNames, tlsCertFile }: Pick<Config, 'host' | 'publicNames' | 'tlsCertFile'>,
  port: number,
  covers?: ((host: string) => boolean) | undefined,
): string {
  const host = reachableHost(bound);
  if (tlsCertFile === undefined) return originOf('http', host, port);
  const hosts = [host, ...(isLoopbackHost(host) ? ['localhost'] : []), ...publicNames];
  return originOf('https', hosts.find((one) => covers?.(one) === true) ?? host, port);
}

export function originOf(scheme: 'http' | 'https', host: string, port: number): string {
  return `${scheme}://${bracketHost(host)}:${port}`;
}
