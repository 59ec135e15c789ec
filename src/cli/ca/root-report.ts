import type { RootStatus } from '../../inbound/ca/root-status.ts';
import type { CliIo } from '../command.ts';
import { asTyped } from '../program-name.ts';
import { printJson, terminalText } from '../terminal-text.ts';

const ROLES: Readonly<Record<string, string>> = { signs: 'signs', next: 'signs later', former: 'trusted still' };

/** What a gateway answers about its roots, for people or as it is. */
export function printRoots(status: RootStatus, json: boolean, io: CliIo): void {
  if (json) {
    printJson(status, io);
    return;
  }
  for (const { role, subject, fingerprint, not_after: end } of status.roots)
    io.stdout(
      `${terminalText(ROLES[role] ?? role).padEnd(13)}  ${terminalText(subject)}\n               ${terminalText(`until ${end}  SHA-256 ${fingerprint}`)}\n`,
    );
  if (status.switch_at !== null) io.stdout(`The next root signs from ${terminalText(status.switch_at)} on.\n`);
  else if (status.roots.length > 1)
    io.stdout(asTyped('Former roots are handed out until they end, or until "gw ca rotate --finish".\n', io.program));
  if (!status.made_here) io.stdout('This root is your own: the gateway cannot make another one in its place.\n');
}
