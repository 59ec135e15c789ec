import t from 'tap';
import { approvalText } from '../../src/cli/approvals/approval-text.ts';

const APPROVAL = {
  approval_id: 'a1',
  org_id: 'acme',
  workload_id: 'app',
  caller_ip: '127.0.0.1',
  attribution: {},
  created_at: '2026-11-23T10:00:00Z',
  expires_at: '2026-11-24T10:00:00Z',
  action: { method: 'POST', target_host: 'api.openai.com', target_path: '/v1', type: 'ai.infer', stream: false, param_sizes: {} },
  rule_ids: ['risk/ask'],
  reason: 'large',
  record_id: 'r1',
  decided_by: null,
  decided_at: null,
};
const NOW = Date.parse('2026-11-23T10:00:30Z');
const shown = (more: object) => approvalText({ ...APPROVAL, ...more } as unknown as Parameters<typeof approvalText>[0], NOW);

t.test('an approval says how long it lasts, as long as it does', async (t) => {
  t.match(shown({ status: 'pending' }), /^waits until: +2026-11-24T10:00:00Z$/m);
  t.match(shown({ status: 'approved' }), /^usable until: +2026-11-24T10:00:00Z$/m);
  t.match(shown({ status: 'expired' }), /^waited until: +2026-11-24T10:00:00Z$/m);
  const used = { executed_at: '2026-11-23T11:00:00Z', executed_record_id: 'r2' };
  t.notMatch(shown({ status: 'approved', ...used }), / until:/, 'it is used up');
  t.notMatch(shown({ status: 'denied' }), / until:/, 'nothing waits for it');
});

t.test('what a call may cost is said as in lists', async (t) => {
  t.match(shown({ status: 'pending', estimated_cost_usd: '0.04' }), /^may cost: +\$0\.04$/m);
});

t.test('who is asked, who has said what, and what waits now', async (t) => {
  const held = { until: '2026-11-23T10:02:00Z', calls: 2 };
  const by = {
    decided_by: 'olga',
    decided_by_principal: { kind: 'management_key', id: 'k1', name: 'olga' },
    decided_at: '2026-11-23T10:00:10Z',
  };
  const text = shown({
    status: 'pending',
    held,
    needs: [{ required: 2, group: 'finance' }],
    decisions: [{ status: 'approved', ...by, reason: 'fine' }],
  });
  t.match(text, /^waiting now: +2 calls on open connections, 90 s left$/m);
  t.match(text, /^asked are: +2 of the group finance$/m);
  t.match(text, /^said so far: +approved by olga \(management key k1\) at 2026-11-23T10:00:10Z: fine$/m);
});
