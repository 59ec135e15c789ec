import t from 'tap';
import type { AuditChange, AuditEntry } from '../../src/base/model/audit-entry.ts';
import { auditEntryText } from '../../src/cli/audit-text.ts';

const ENTRY: AuditEntry = {
  audit_id: '01a2085a-6136-77c0-b595-5e9e88edb0d8',
  at: '2026-11-23T11:02:41.530Z',
  org_id: 'acme',
  principal: { kind: 'node', id: '787a569a0337' },
  operation: 'policies.reload',
  object: 'shop',
  from: '127.0.0.1',
  changes: [],
};
const SAME: AuditChange = { entity: 'policy', member: 'version', before: 'a', after: 'a', before_value: '1', after_value: '1' };
const lines = (entry: Partial<AuditEntry>) =>
  auditEntryText({ ...ENTRY, ...entry }, undefined)
    .split('\n')
    .slice(1, -1);

t.test('what the gateway does by itself is told so, and a reload that changes nothing as well', async (t) => {
  t.same(lines({ changes: [SAME] }), [
    '  by node 787a569a0337 (the gateway itself) from 127.0.0.1',
    '    version: 1 (as before)',
    '    no rule is another: the policy is as before',
  ]);
  const other = { entity: 'policy', member: 'content_hash', before: 'a', after: 'b' };
  t.notMatch(lines({ changes: [SAME, other] }).join('\n'), /as before:|no rule is another/, 'its text is another');
});

t.test('a bundle that was fetched is told by its rules, without what the gateway keeps beside it', async (t) => {
  const rule = { entity: 'policy_rule', rule: 'targets/small@base', member: 'rule', before: null, after: 'b', after_value: '{}' };
  const kept = ['fetched_at', 'kid', 'signature', 'version'].map((member) => ({
    entity: 'remote_bundle',
    member,
    before: null,
    after: 'b',
  }));
  const highest = { entity: 'remote_bundle_highest', member: 'sequence', before: null, after: 'b' };
  t.same(lines({ operation: 'policies.fetch', changes: [{ ...SAME, after: 'b', after_value: '2+3' }, rule, ...kept, highest] }), [
    '  by node 787a569a0337 (the gateway itself) from 127.0.0.1',
    '    version: 1 → 2+3',
    '  + rule targets/small@base: {}',
  ]);
});

t.test('a decision is told without a second name of who has decided, and nothing is called null', async (t) => {
  const change = (member: string, is: string): AuditChange => ({
    entity: 'quarantine',
    member,
    before: 'a',
    after: 'b',
    before_value: 'null',
    after_value: is,
  });
  const principal = { kind: 'management_key' as const, id: '01a2', name: 'ben' };
  const named = { entity: 'quarantine', member: 'released_by_principal.name', before: null, after: 'b', after_value: 'ben' };
  t.same(
    lines({ principal, operation: 'quarantine.release', changes: [change('released_at', 'x'), change('released_by', 'ben'), named] }),
    ['  by ben (management key 01a2) from 127.0.0.1', '    released_at: (none) → x', '    released_by: (none) → ben'],
  );
});

t.test('a revocation that is told otherwise, and a change that a gateway has handed on', async (t) => {
  const changes = [{ entity: 'delegation_revoked', member: 'reason', before: 'a', after: 'b', before_value: 'x', after_value: 'y' }];
  const principal = { kind: 'admin' as const, id: 'admin' };
  t.equal(lines({ principal, object: 'd1', changes })[0], '  admin changed revocation of delegation d1 of acme: reason x → y');
  t.match(lines({ principal, node_id: 'gateway-1' })[0], '  by admin at node gateway-1 from 127.0.0.1');
});
