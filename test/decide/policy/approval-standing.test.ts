// How many persons a request still waits for.
import t from 'tap';
import type { ApprovalDecision, ApprovalNeed } from '../../../src/base/model/approval.ts';
import { stillMissing } from '../../../src/decide/policy/approval-standing.ts';

const yes = (...groups: readonly string[]): ApprovalDecision => ({
  status: 'approved',
  decided_by: groups.join(' '),
  decided_by_principal: { kind: 'management_key', id: groups.join(' ') },
  decided_at: '2026-11-28T00:00:00.000Z',
  groups,
});

t.test('who is in a group counts where anybody may decide, too', (t) => {
  const rows: readonly [readonly ApprovalNeed[] | undefined, readonly ApprovalDecision[], number][] = [
    [undefined, [], 1],
    [[{ required: 2 }], [yes()], 1],
    [[{ required: 1 }, { required: 1, group: 'finance' }], [], 1],
    [[{ required: 1 }, { required: 1, group: 'finance' }], [yes()], 1],
    [[{ required: 3 }, { required: 1, group: 'finance' }], [], 3],
    [
      [
        { required: 1, group: 'law' },
        { required: 1, group: 'finance' },
      ],
      [],
      2,
    ],
    [
      [
        { required: 1, group: 'law' },
        { required: 1, group: 'finance' },
      ],
      [yes('law')],
      1,
    ],
    [
      [
        { required: 1, group: 'law' },
        { required: 1, group: 'finance' },
      ],
      [yes('law', 'finance')],
      0,
    ],
  ];
  for (const [needs, decisions, missing] of rows)
    t.equal(stillMissing({ ...(needs && { needs }), decisions }), missing, JSON.stringify([needs, decisions.length]));
  t.end();
});
