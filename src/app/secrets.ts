/*
 * The composition root: picks adapters, wires rooms together, and owns the order of starting and stopping. No rule of the product lives here.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, open, readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Reads a one-line secret or id, or makes it on the first start; the file is created exclusively with mode 0600. */
async function onceMade(file: string, make: () => string): Promise<string> {
  try {
    const handle = await open(file, 'wx', 0o600);
    try {
      const made = make();
      await handle.writeFile(`${made}\n`);
      await handle.sync();
      return made;
    } finally {
      await handle.close();
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    const text = (await readFile(file, 'utf8')).trim();
    if (text === '') throw new Error(`${file} is empty; remove it to have a new one made.`, { cause: error });
    return text;
  }
}

export interface Identity {
  readonly nodeId: string;
  readonly adminToken: string;
  /** Where the generated admin token is; undefined when it was configured. */
  readonly adminTokenFile: string | undefined;
}

/** Who this gateway is and how its operator proves to be one (`GW_ADMIN_TOKEN`, decision section 2). */
export async function openIdentity(dataDir: string, configured: { adminToken: string | undefined; nodeId: string | undefined }): Promise<Identity> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const nodeId = configured.nodeId ?? (await onceMade(join(dataDir, 'node-id'), () => `node-${randomBytes(6).toString('hex')}`));
  if (configured.adminToken !== undefined) return { nodeId, adminToken: configured.adminToken, adminTokenFile: undefined };
  const adminTokenFile = join(dataDir, 'admin-token');
  const adminToken = await onceMade(adminTokenFile, () => randomBytes(32).toString('base64url'));
  return { nodeId, adminToken, adminTokenFile };
}
