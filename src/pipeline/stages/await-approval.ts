import { askForApproval } from '../parts/ask-for-approval.ts';
import { defineStage } from '../parts/stage.ts';

const NOBODY = { cleared: { by: undefined } };

/**
 * Behind everything else that could refuse the call, so that nobody is asked about one that would not be made (decision 4.6): what waits ends here, and what goes on has
 * been cleared. Nothing behind this stage can run without that.
 */
export const approval = defineStage({
  name: 'approval',
  reads: ['arrival', 'claims', 'proof', 'action', 'judgement', 'approving', 'attribution', 'route'],
  makes: ['cleared'],
  run(parts, { approvals }) {
    const { waits, given } = parts.approving;
    if (waits) return askForApproval(parts, approvals);
    return given === undefined ? NOBODY : { cleared: { by: given } };
  },
});
