import type { OrgAddons } from '../../base/model/org.ts';
import { NO_SWITCHES, type ProviderSwitches } from '../../base/model/org.ts';
import { RULE_FILE_SCHEMA } from '../../decide/policy/bundle.ts';
import type { GeneratedText } from '../../decide/policy/compile.ts';

/**
 * Before every rule that persons write: a rule of the same priority that allows gives way to one that refuses
 * (policy.md 6).
 */
const FIRST = 999_999_999_999_999;
/** No name of a file in a policies folder: those end in `.yaml`. */
export const SWITCHES_FILE = 'provider switches';
export const NOT_LOADED_FILE = 'overlay not loaded';

/**
 * The rules that deny an org's calls to the providers that it has switched off, and tunnels in which callers' keys
 * could not be seen, as a rule file; undefined when there is none.
 */
export function switchRules({ providers }: OrgAddons): GeneratedText | undefined {
  const off = connectorsWith(providers, 'routing', false).map((id) => ({
    id: `switch.routing.${id}`,
    priority: FIRST,
    when: ofConnector(id),
    effect: { decision: 'deny', reason: `this org has switched ${id} off`, reason_codes: ['provider_disabled'] },
  }));
  // What is in a tunnel that is not opened nobody sees, so not whose key either.
  const unseen = connectorsWith(providers, 'byok', false).map((id) => ({
    id: `switch.byok.${id}`,
    priority: FIRST,
    when: { all: [ofConnector(id), { field: 'context.action.method', equals: 'CONNECT' }] },
    effect: { decision: 'deny', reason: `this org takes no keys of callers for ${id}`, reason_codes: ['byok_disabled'] },
  }));
  return off.length + unseen.length === 0 ? undefined : ruleFile(SWITCHES_FILE, 'connectors', [...off, ...unseen]);
}

function ofConnector(id: string): object {
  return { field: 'context.connector.id', equals: id };
}

/** What an org is judged by whose own layers no longer load: a rule that denies everything. */
export const NOT_LOADED: GeneratedText = ruleFile(NOT_LOADED_FILE, 'identity', [
  {
    id: 'switch.overlay_not_loaded',
    priority: FIRST,
    effect: { decision: 'deny', reason: 'the policy of this org does not load', reason_codes: ['overlay_not_loaded'] },
  },
]);

/** What the path of a call asks beside its policy. */
export function switchesOf({ providers }: OrgAddons): ProviderSwitches {
  const byokOff = connectorsWith(providers, 'byok', false);
  const oauthOn = connectorsWith(providers, 'oauth', true);
  const oauthOff = connectorsWith(providers, 'oauth', false);
  if (byokOff.length + oauthOn.length + oauthOff.length === 0) return NO_SWITCHES;
  return Object.freeze({ byokOff: new Set(byokOff), oauthOn: new Set(oauthOn), oauthOff: new Set(oauthOff) });
}

function connectorsWith(providers: OrgAddons['providers'], mode: 'routing' | 'byok' | 'oauth', enabled: boolean): readonly string[] {
  return Object.entries(providers)
    .flatMap(([id, modes]) => (modes[mode]?.enabled === enabled ? [id] : []))
    .sort();
}

/** JSON is YAML, and quotes what has to be. */
function ruleFile(file: string, layer: string, rules: readonly object[]): GeneratedText {
  return { file, text: JSON.stringify({ schema: RULE_FILE_SCHEMA, layer, rules }), kind: 'switch' };
}
