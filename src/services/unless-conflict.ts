import { GatewayError } from '../base/lib/gateway-error.ts';

/** Whether a commit took place: false where others were there first (`Store.commit`, `expect`). */
export async function unlessConflict(commit: Promise<void>): Promise<boolean> {
  try {
    await commit;
    return true;
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'conflict') return false;
    throw error;
  }
}
