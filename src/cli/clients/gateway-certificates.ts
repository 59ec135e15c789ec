/* The certificates that programs are to trust, of a gateway whose folder may not be readable here. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { inFolder, makeFolder } from '../../base/lib/file-system.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import { certificatePem } from '../../inbound/ca/certificate.ts';
import { ROOT_CERTIFICATE, TRUST_BUNDLE } from '../../inbound/ca/root-files.ts';
import { trustBundle } from '../../inbound/ca/trust-bundle.ts';
import { type CliIo, Unusable } from '../command.ts';
import { ownAddress } from '../gateway-address.ts';
import type { GatewaySettings } from '../settings-of.ts';
import { servedRoots } from '../trust/gateway-roots.ts';
import { fingerprint } from '../trust/trust-place.ts';
import { missingCertificates, trustFolder } from './client-variables.ts';

/** In the folder of {@link trustFolder}. */
export const FETCHED_ROOTS = 'roots-';

/**
 * The settings with a folder that holds the certificates of their gateway. Where its own cannot be read here, the
 * gateway is asked for its root, which is taken only when it is one that it handed out at its start (decision 12.15).
 * @throws Unusable when there are none
 */
export async function withCertificates(config: GatewaySettings, io: CliIo): Promise<GatewaySettings> {
  const missing = missingCertificates(config);
  if (missing.length === 0) return config;
  const known = config.found?.gateway.root_sha256 ?? [];
  if (known.length === 0)
    throw new Unusable(
      `there is no ${missing.join(' and no ')}, and no start of a gateway is noted that has them elsewhere: start it, or name the folder with its certificates by GW_CA_DIR (gw status shows what is found)`,
    );
  const { trusted, from } = await servedRoots(ownAddress(config, io.env));
  const stranger = trusted.map(fingerprint).find((one) => !known.includes(one));
  if (stranger !== undefined)
    throw new Unusable(
      `there is no ${missing.join(' and no ')}, and ${from} hands out a root that is not known to be its own (SHA-256 ${stranger})`,
    );
  return { ...config, caDir: await certificateFolder(trusted, trustFolder(io.env)) };
}

/** Named after what it holds, so that one that a program reads at the moment never changes. */
async function certificateFolder(roots: readonly Buffer[], cache: string): Promise<string> {
  const pem = roots.map(certificatePem).join('');
  const folder = join(cache, `${FETCHED_ROOTS}${sha256Hex(pem).slice(0, 16)}`);
  await inFolder('XDG_CACHE_HOME', folder, async () => {
    await makeFolder(folder, 0o700);
    await writeFile(join(folder, ROOT_CERTIFICATE), pem, { mode: 0o600 });
    await writeFile(join(folder, TRUST_BUNDLE), await trustBundle(pem), { mode: 0o600 });
  });
  return folder;
}
