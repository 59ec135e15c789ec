import { type ErrorDetail, GatewayError } from '../base/lib/gateway-error.ts';
import { compilePolicy, type PolicyInput } from '../decide/policy/compile.ts';
import type { CompiledPolicy } from '../decide/policy/compiled.ts';
import type { PlanTier } from '../decide/policy/layers.ts';

/** What every bundle of this gateway is compiled with. */
export interface LanguageOptions {
  readonly tier: PlanTier;
  /** Turns neutral names and aliases into canonical connector ids; undefined for an unknown one. Default: ids are taken as they are. */
  readonly connectorId?: ((text: string) => string | undefined) | undefined;
}

/**
 * Compiles, or says for a person what is wrong.
 * @throws GatewayError `invalid_policy` with every mistake in `details` and, one a line, in the message, which begins with `what`
 */
export function loadPolicy(texts: Omit<PolicyInput, 'tier'>, { tier, connectorId }: LanguageOptions, what: string): CompiledPolicy {
  const { policy, errors } = compilePolicy({ ...texts, tier }, connectorId ? { connectorId } : {});
  if (errors === undefined) return policy;
  throw new GatewayError('invalid_policy', `${what}:\n${errors.map(mistakeLine).join('\n')}`, { details: errors });
}

/** `bundle.yaml:12:5: message (hint)`, as editors and terminals link it. */
function mistakeLine({ file, line, column, message, hint, rule_id }: ErrorDetail): string {
  const where = [file, line, column].filter((part) => part !== undefined).join(':');
  return `  ${where}: ${rule_id === undefined ? '' : `rule "${rule_id}": `}${message}${hint === undefined ? '' : ` (${hint})`}`;
}
