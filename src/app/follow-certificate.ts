import type { Clock } from '../base/lib/clock.ts';
import type { Logger } from '../base/lib/log.ts';
import type { CertificateInForce } from '../inbound/ca/certificate-in-force.ts';
import { FolderWatch } from '../services/keeper/folder-watch.ts';

/** Takes a new certificate for the ports as soon as it is there (decision 12.1); returns what ends it. */
export function followCertificate(certificate: CertificateInForce, { clock, log }: { clock: Clock; log: Logger }): () => Promise<void> {
  const watch = new FolderWatch({ folders: () => certificate.folders(), onChange: () => certificate.follow(), clock, log });
  return () => watch.close();
}
