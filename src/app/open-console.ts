import type { Config } from '../base/config/config.ts';
import type { Clock } from '../base/lib/clock.ts';
import type { Logger } from '../base/lib/log.ts';
import type { SecretBox } from '../base/lib/secret-box.ts';
import type { CertificateInForce } from '../inbound/ca/certificate-in-force.ts';
import { callerIp } from '../inbound/normalise/identity.ts';
import type { ConsoleServices } from '../operations/services.ts';
import type { Authenticator } from '../services/people/authenticator.ts';
import { ConsoleDoor } from '../services/people/console-door.ts';
import { ConsoleSessions } from '../services/people/console-sessions.ts';
import type { ManagementKeyService } from '../services/people/management-keys.ts';
import type { WrongKeys } from '../services/people/wrong-keys.ts';
import type { Store } from '../storage/contract/store.ts';

interface SessionGround {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly box: SecretBox;
  readonly managementKeys: ManagementKeyService;
  readonly adminToken: string;
}

/** Who has signed in to the console; undefined when it is switched off (`GW_CONSOLE_ENABLED=false`). */
export async function openConsoleSessions(
  { consoleEnabled, consoleSessionIdle: idleMs, consoleSessionMax: maxMs }: Config,
  { managementKeys: keys, ...ground }: SessionGround,
): Promise<ConsoleSessions | undefined> {
  return consoleEnabled ? await ConsoleSessions.open({ ...ground, keys, idleMs, maxMs }) : undefined;
}

/** Its door; undefined when it is switched off. */
export function consoleDoor(
  { trustedProxies, publicNames, orgId }: Config,
  {
    consoleSessions: sessions,
    certificate,
  }: { readonly consoleSessions: ConsoleSessions | undefined; readonly certificate: CertificateInForce | undefined },
): ConsoleDoor | undefined {
  const covers = certificate && ((host: string): boolean => certificate.current.covers(host));
  return sessions && new ConsoleDoor({ sessions, trustedProxies, publicNames, covers, orgId });
}

/** Under which name tries of the admin token are counted, from whichever address they come. */
const ADMIN_ACCOUNT = 'admin token';

/** What its operations stand on. */
export function consoleServices(
  { trustedProxies }: Config,
  sessions: ConsoleSessions | undefined,
  { door, authenticator, wrongKeys }: { door: ConsoleDoor | undefined; authenticator: Authenticator; wrongKeys: WrongKeys },
): ConsoleServices | undefined {
  if (sessions === undefined || door === undefined) return undefined;
  return {
    sessions,
    door,
    wrong: async (head, presented, isOfAdmin) => {
      authenticator.failed({ surface: 'console', head, presented });
      await wrongKeys.answerable(callerIp(head, trustedProxies));
      if (isOfAdmin) await wrongKeys.answerable(ADMIN_ACCOUNT);
    },
  };
}
