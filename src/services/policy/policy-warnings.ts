import { type ErrorDetail, GatewayError, messageOf } from '../../base/lib/gateway-error.ts';
import type { HealthWarning } from '../../base/model/not-ready.ts';
import type { CompiledPolicy } from '../../decide/policy/compiled.ts';
import { emptiedMessage } from '../../decide/policy/lint.ts';
import { deniesAllMessage, whyNothingPasses } from '../../decide/policy/refuses-all.ts';
import { NO_BUNDLE } from './no-bundle.ts';
import { overlayFile, presetFile } from './org-overlays.ts';
import type { PolicyService } from './policies.ts';
import type { PolicyWarning } from './policy-doubts.ts';

/** Orgs that health names; of more it says how many. */
const NAMED = 8;
const PRESET = presetFile('');

/** Something that an org lays over the bundle and that does not load. */
export interface NotLoadedPiece {
  /** `org overlay`, `node overlay`, `preset ID`, or the file of the bundle. */
  readonly piece: string;
  /** Why, with line and column where it has such. */
  readonly problems: readonly ErrorDetail[];
  /** What takes it away. */
  readonly take_away: string;
}

/** What does not load of an org, each piece once. */
export function notLoadedPieces(problems: readonly ErrorDetail[]): readonly NotLoadedPiece[] {
  const pieces = new Map<string, ErrorDetail[]>();
  for (const problem of problems) {
    const piece = problem.file ?? 'policy';
    pieces.set(piece, [...(pieces.get(piece) ?? []), problem]);
  }
  return [...pieces].map(([piece, of]) => ({ piece, problems: of, take_away: takeAway(piece) }));
}

function takeAway(piece: string): string {
  if (piece === overlayFile('org')) return 'PUT /mgmt/v1/policies with an empty bundle_yaml';
  if (piece === overlayFile('node')) return 'PUT /mgmt/v1/policies with an empty bundle_yaml and the level node';
  if (piece.startsWith(PRESET)) return `POST /mgmt/v1/providers/policy-${piece.slice(PRESET.length)}/routing/disable`;
  return 'put another bundle, or choose a plan tier that includes it';
}

/** What health says of it (decision 5.8). */
export function policyWarnings(policies: Pick<PolicyService, 'folderProblem' | 'notLoaded'>): readonly HealthWarning[] {
  const found = policies.notLoaded();
  const more = found.length - NAMED;
  const warnings = found.slice(0, NAMED).map(({ org_id: orgId, problems }) => ({
    code: 'policy_not_loaded',
    message: `${orgId === undefined ? 'The policy bundle does not load: everything is denied' : `What the org ${orgId} lays over the policy bundle does not load: all of its requests are denied`}. ${told(problems)}`,
  }));
  if (more > 0) warnings.push({ code: 'policy_not_loaded', message: `The same is so of ${more} other org(s).` });
  const { folderProblem: problem } = policies;
  if (problem !== undefined)
    warnings.push({
      code: 'policy_change_not_loaded',
      message: `What is in the policies folder now does not load, so that the bundle before it stays in force: ${firstProblem(problem)}`,
    });
  return warnings;
}

/** The first mistake in one line, and how many there are more. */
export function firstProblem(error: unknown): string {
  const [first, ...others] = error instanceof GatewayError ? (error.details ?? []) : [];
  if (first === undefined) return messageOf(error);
  const place = [first.file, first.line, first.column].filter((part) => part !== undefined).join(':');
  const more = others.length === 0 ? '' : ` (and ${others.length} more)`;
  return `${place === '' ? '' : `${place}: `}${first.message}${more}`;
}

function told(problems: readonly ErrorDetail[]): string {
  return notLoadedPieces(problems)
    .map(({ piece, problems: [first], take_away: how }) => `${piece}: ${first?.message ?? ''} (${how}).`)
    .join(' ');
}

/**
 * What health says of a policy by which nothing can be allowed: that of the gateway's own org, or of all that lay
 * nothing over the bundle.
 */
export function deniesAllWarnings(
  policies: Pick<PolicyService, 'current' | 'passage'>,
  orgId: string | undefined,
): readonly HealthWarning[] {
  const { policy, notLoaded, bundle_id: bundleId, source } = policies.current(orgId);
  // Of what does not load, or never came, that is said.
  const isTold = notLoaded !== undefined || (source === 'control_plane' && bundleId === NO_BUNDLE.file);
  const why = isTold ? undefined : whyNothingPasses(policy, policies.passage);
  if (why === undefined) return [];
  return [{ code: 'policy_denies_all', message: `Every call is refused: ${deniesAllMessage(why, policy.unusedFiles)}.` }];
}

/** What the answer to a PUT says of gating layers that have lost their last rule (policy.md 9). */
export function emptiedWarnings({ emptied }: Pick<CompiledPolicy, 'emptied'>): readonly PolicyWarning[] {
  return emptied.map(({ layer, file }) => ({
    path: `inline_rules.${layer}`,
    code: 'empties_layer',
    message: emptiedMessage(layer),
    files: [file],
  }));
}
