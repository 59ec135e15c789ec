import type { KeyObject } from 'node:crypto';
import type { RootSigners } from '../../src/control-plane/ledger/org-ledger.ts';

/** Signs with one key, at the time that it is asked. */
export function oneSigner(kid: string, key: KeyObject): RootSigners {
  return { signerAt: async (at) => ({ signer: { kid, key }, at }) };
}
