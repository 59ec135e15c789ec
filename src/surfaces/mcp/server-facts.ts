import type { McpServerFacts } from './mcp-dispatcher.ts';

const INSTRUCTIONS = [
  'Manages an AI request gateway: who may call which AI provider, at what cost, and what came of it.',
  'Lists come in pages of at most 500 (limit; list_records and list_audit show 20 where it is left out): where has_more is true, pass next_cursor of the answer as cursor.',
  'Amounts of money are exact decimal text in USD; times are RFC 3339 in UTC, and from, to and until also take a day (that of to is included), a month, or words such as today, yesterday, last week, 7d, friday, in the IANA time zone tz (UTC).',
  'dry_run true writes nothing and says what would change; if_match is the etag that was read, and refuses what somebody has changed since.',
  'Why a call was denied: list_records with decision deny finds it, explain_record says which rule or limit stood in the way and what would let it through.',
  'Who spent what: get_billing_summary (workloads, models, days), get_attribution_summary (projects, customers, callers).',
  'A tool that fails answers {error: {code, message, details}}; insufficient_scope means that this key lacks the scope that the message names.',
  'Keys are never made, shown or revoked by tools.',
].join(' ');

/**
 * How the server presents itself.
 * @param environment which gateway this is, so that a person and his assistant see what they are about to change
 */
export function mcpServerFacts(version: string, environment?: { readonly name: string; readonly caution: string }): McpServerFacts {
  const name = 'ai-request-gateway';
  if (environment === undefined) return { name, title: 'AI Request Gateway', version, instructions: INSTRUCTIONS };
  return {
    name: `${name}-${environment.name}`,
    title: `AI Request Gateway (${environment.name})`,
    version,
    instructions: `${environment.caution} ${INSTRUCTIONS}`,
  };
}
