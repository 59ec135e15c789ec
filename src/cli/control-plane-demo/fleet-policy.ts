/** What the demo calls, and then forbids. */
export const FLEET_MODEL = 'gpt-4o-mini';

/** The policy of the demo's org. @param denied models that it says no to */
export function bundleText(version: string, denied: readonly string[]): string {
  const targets = denied.map(
    (model) => `
    - id: demo.no_${model.replace(/[^a-z0-9]/g, '_')}
      when: { field: context.action.params.model, equals: ${model} }
      effect: { decision: deny, reason: ${model} is not approved, reason_codes: [model_not_approved] }`,
  );
  return `# The policy of gw control-plane demo.
schema: gw.policy_bundle.v1
bundle_id: control-plane-demo
version: "${version}"
inline_rules:
  connectors:
    - id: demo.openai
      when: { field: context.connector.id, equals: openai }
      effect: { decision: allow }
${targets.length === 0 ? '' : `  targets:${targets.join('')}\n`}`;
}
