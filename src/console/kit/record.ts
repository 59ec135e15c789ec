import type { ExecutionRecord } from '../../base/model/execution-record.ts';
import { together } from './shown-values.ts';

/** A record as a list shows it: without what policy saw. */
export type ListedCall = ExecutionRecord;

/** Operations name of a record what every one has; the rest is the record's own form. */
export function recordOf(item: object): ListedCall {
  return item as ListedCall;
}

/** Who made a call, in one line: the workload, and the person behind it where there is one. */
export function whoOf({ workload_id: workload, caller_id: caller, caller_ip: ip }: ListedCall): string {
  const isNamed = workload !== 'default' && workload !== '';
  const parts = [isNamed || caller === undefined ? workload : undefined, caller].filter((part) => part !== undefined && part !== '');
  return isNamed || caller !== undefined ? parts.join(' · ') : (ip ?? workload);
}

/** `gpt-4o → gpt-4o-mini` where policy had another model answer. */
export function modelOf({ model, decision, metering }: ListedCall): string {
  const answered = metering?.model;
  return decision === 'downgrade' && answered !== undefined && answered !== model
    ? `${model ?? ''} → ${answered}`
    : (model ?? answered ?? '');
}

/** What names to whom a call is charged; a record has these members, and an approval has them apart. */
type Belonging = Pick<ListedCall, 'project_id' | 'customer_id' | 'account_id' | 'labels'>;

/** Project, customer, account and labels in one line; empty: it belongs to nothing. */
export function belongingOf({ project_id: project, customer_id: customer, account_id: account, labels = {} }: Belonging): string {
  return together(project, customer, account, ...Object.entries(labels).map(([key, value]) => `${key}=${value}`));
}

/** The rules that took part, as `layer/id`. */
export function rulesOf({ policy_trace: trace }: ListedCall): readonly string[] {
  return (
    trace?.matched_rule_ids.map((id, at) => (trace.matched_layers?.[at] === undefined ? id : `${trace.matched_layers[at]}/${id}`)) ?? []
  );
}

/** The call again, for a terminal: without its body and its key, of which no record holds anything. */
export function curlOf({ action_method: method, target, stream }: ListedCall): string {
  const body = method === 'GET' ? '' : ` \\\n  -H 'Content-Type: application/json' -d '${stream ? '{"stream": true}' : '{}'}'`;
  return `curl -X ${method} ${quoted(target)} \\\n  -H "Authorization: Bearer $API_KEY"${body}`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
