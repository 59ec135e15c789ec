import { mergeAttribution, settleAttribution } from '../../decide/attribution/attribution.ts';
import type { Stage } from '../stage.ts';

/** What the caller left out comes from its workload (specification, "ActionRequest"; decision 6.11). */
export const defaultAttribution: Stage = {
  name: 'default attribution',
  run(exchange) {
    exchange.attribution = mergeAttribution(exchange.attribution, exchange.workload?.default_attribution);
    return undefined;
  },
};

/** What matched rules say about attribution: overrides that are not allowed are dropped, the rules' defaults filled in, what is required looked at again. */
export const attributionEffects: Stage = {
  name: 'attribution effects',
  run(exchange) {
    const { verdict, request, identity } = exchange;
    if (!verdict) return undefined;
    const caller = request?.attribution ?? identity?.attribution ?? {};
    const settled = settleAttribution({ caller, workload: exchange.workload?.default_attribution, effects: verdict.effects });
    exchange.attribution = settled.attribution;
    if (settled.missing.length === 0) return undefined;
    return {
      decision: 'require_attribution',
      status: 403,
      reason: `require_attribution: ${settled.missing.join(', ')} required`,
      reasonCodes: settled.missing.map((name) => `missing:${name}`),
    };
  },
};
