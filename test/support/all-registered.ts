import type { RegisteredNames } from '../../src/services/reports/record-counters.ts';

/** Where it does not matter who is registered. */
export const ALL_REGISTERED: RegisteredNames = { org: () => true, workload: () => true };
