import { delegatedAttribution, mergeAttribution, settleAttribution } from '../../decide/attribution/settle-attribution.ts';
import { deny, Refusal } from '../parts/refusal.ts';
import { defineStage, EndedWith } from '../parts/stage.ts';

/** What the caller left out comes from its workload (specification, "ActionRequest"; decision 6.11). */
export const defaultAttribution = defineStage({
  name: 'default attribution',
  reads: ['claims', 'caller'],
  sees: ['delegated'],
  makes: ['attributed'],
  run({ claims, caller, delegated }) {
    const given = delegated === undefined ? claims.attribution : delegatedAttribution(claims.attribution, delegated.attribution);
    return { attributed: mergeAttribution(given, caller.workload.default_attribution) };
  },
});

/**
 * What matched rules say about attribution: overrides that are not allowed are dropped, the rules' defaults and then the org's filled in, what is required looked at again. Nothing
 * is charged to a project that is archived (decisions 4.6, 6.12).
 */
export const attributionEffects = defineStage({
  name: 'attribution effects',
  reads: ['claims', 'caller', 'judgement'],
  sees: ['delegated'],
  makes: ['attribution'],
  run({ claims, caller, judgement, delegated }, { projects }) {
    const { effects } = judgement.verdict;
    const { workload, orgAttribution } = caller;
    const settled = settleAttribution({
      caller: claims.attribution,
      delegation: delegated?.attribution,
      workload: workload.default_attribution,
      org: orgAttribution,
      effects,
    });
    const made = { attribution: settled.attribution };
    if (settled.missing.length === 0) {
      const { project_id: projectId } = settled.attribution;
      if (!projects.isArchived(claims.orgId, projectId)) return made;
      return new EndedWith(deny('project_archived', `The project ${String(projectId)} is archived: nothing is charged to it.`), made);
    }
    const refusal = new Refusal({
      decision: 'require_attribution',
      status: 403,
      reason: `require_attribution: ${settled.missing.join(', ')} required`,
      reasonCodes: settled.missing.map((name) => `missing:${name}`),
    });
    return new EndedWith(refusal, made);
  },
});
