import type { CallGuard } from '../../src/control-plane/proto/server-call.ts';

/** Lets everybody call, as the node that tests play; who is to be refused is refused by what carries out the call. */
export const OPEN_GUARD: CallGuard<string> = {
  admit: (_name, { certificate }) => (certificate === undefined ? undefined : { orgId: 'acme', nodeId: 'node-1' }),
  refused: () => undefined,
};
