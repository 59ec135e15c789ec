import type { Config } from '../base/config/config.ts';
import type { InheritedSockets } from '../base/config/inherited-sockets.ts';
import { bracketHost } from '../base/lib/host.ts';

/** What the system says of a descriptor that is closed, no socket, or one of another kind. */
const NO_SOCKET: ReadonlySet<string> = new Set(['EINVAL', 'EBADF', 'ENOTSOCK', 'EOPNOTSUPP', 'EISCONN']);

/** What keeps a port from being opened, in words that name the setting to change; any other error as it is. */
export function bindError(
  error: unknown,
  { host, ambientPort, mgmtPort }: Pick<Config, 'host' | 'ambientPort' | 'mgmtPort'>,
  inherited: InheritedSockets = {},
): unknown {
  if (!(error instanceof Error) || !('code' in error)) return error;
  const descriptors = Object.values(inherited);
  if (descriptors.length > 0 && NO_SOCKET.has(String(error.code))) {
    const which = descriptors.join(' or ');
    return new Error(`LISTEN_FDS: descriptor ${which}, which was handed over, is no TCP socket that listens (${String(error.code)})`, {
      cause: error,
    });
  }
  const port = 'port' in error && typeof error.port === 'number' ? error.port : 0;
  const named = port === mgmtPort ? 'GW_MGMT_PORT' : 'GW_PORT';
  const setting = port === ambientPort ? 'GW_AMBIENT_PORT' : named;
  const say = (message: string) => new Error(message, { cause: error });
  switch (error.code) {
    case 'EADDRINUSE':
      return say(
        `${setting}: port ${port} of ${bracketHost(host)} is in use, perhaps by another gateway: stop that program, or set ${setting} to another port (0 takes a free one)`,
      );
    case 'EACCES':
      return say(`${setting}: this user may not open port ${port}; ports from 1024 up need no privilege`);
    case 'EADDRNOTAVAIL':
      return say(`GW_HOST: "${host}" is no address of this machine`);
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return say(`GW_HOST: the name "${host}" has no address (${error.code})`);
    default:
      return error;
  }
}
