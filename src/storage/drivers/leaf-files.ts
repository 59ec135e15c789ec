import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isMissing } from '../../base/lib/gateway-error.ts';
import type { LeafPlace } from '../contract/leaves.ts';
import { LeafLog } from '../leaves/leaf-log.ts';

/** The leaves of each org in a file of its own. @param dir a folder that is there */
export function leafFiles(dir: string): LeafPlace {
  // An id may hold what no file name does.
  const fileOf = (orgId: string) => join(dir, `${Buffer.from(orgId).toString('hex')}.leaves`);
  return {
    has: async (orgId) => {
      try {
        return (await stat(fileOf(orgId))).isFile();
      } catch (error) {
        if (isMissing(error)) return false;
        throw error;
      }
    },
    differs: (orgId, signed) => LeafLog.differs(fileOf(orgId), signed),
    open: (orgId, atLeast) => LeafLog.open(fileOf(orgId), atLeast),
  };
}
