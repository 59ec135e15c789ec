import type { HealthWarning } from '../../base/model/not-ready.ts';
import { type Finding, type FindingLevel, warning, wrong } from './finding.ts';

interface Remedy {
  readonly level: Extract<FindingLevel, 'warning' | 'wrong'>;
  readonly remedy: string;
}

const SIGN = 'docs/guides/tls.md, A certificate';
const PRICES = 'gw prices status says more';

/** What to do about each; `wrong` where calls are refused, or clients turned away, until it is done. */
const REMEDIES: Readonly<Record<string, Remedy>> = {
  record_store_unavailable: {
    level: 'wrong',
    remedy:
      'make room on the disk of GW_DATA_DIR, or shorten GW_RECORD_RETENTION: calls are taken again as soon as something can be written',
  },
  policy_not_loaded: {
    level: 'wrong',
    remedy: 'gw policy check shows every mistake; docs/guides/policy.md says how overlays are replaced',
  },
  policy_denies_all: { level: 'wrong', remedy: 'gw policy check says why; then POST /v1/admin/policies/reload' },
  policy_change_not_loaded: { level: 'warning', remedy: 'gw policy check shows every mistake; the folder is read again when it is saved' },
  shadow_policy_not_loaded: {
    level: 'warning',
    remedy: 'gw policy check with the folder that GW_POLICIES_SHADOW names shows every mistake',
  },
  certificate_expired: { level: 'wrong', remedy: SIGN },
  certificate_expires_soon: { level: 'warning', remedy: SIGN },
  certificate_not_loaded: { level: 'warning', remedy: 'put the right pair there: the files are read again by themselves' },
  certificate_of_former_root: { level: 'warning', remedy: SIGN },
  certificate_of_dropped_root: { level: 'wrong', remedy: SIGN },
  clear_text_beyond_loopback: { level: 'warning', remedy: 'docs/guides/tls.md' },
  calls_stopped: { level: 'wrong', remedy: 'gw stops shows which calls and why; gw resume ends a stop (docs/guides/stopping.md)' },
  price_list_not_renewed: { level: 'warning', remedy: PRICES },
  price_list_unusable: { level: 'warning', remedy: PRICES },
  price_list_held: { level: 'warning', remedy: PRICES },
  custom_connector_not_used: { level: 'warning', remedy: 'docs/guides/custom-connectors.md says what is refused' },
  unknown_plan_tier: { level: 'warning', remedy: 'a newer version of the gateway knows it; docs/guides/control-plane.md' },
  no_bundle: { level: 'wrong', remedy: 'give the org a bundle at the control plane: docs/guides/control-plane.md' },
};
const ELSE: Remedy = { level: 'warning', remedy: 'the log of the gateway says more' };

/** Codes of warnings that the check of the control plane tells. */
export const CONTROL_PLANE = 'cp_';

/** What the gateway itself says is wrong with it, each with what to do. */
export function warningFindings(id: string, warnings: readonly HealthWarning[]): readonly Finding[] {
  return warnings
    .filter(({ code }) => !code.startsWith(CONTROL_PLANE))
    .map(({ code, message }) => {
      const { level, remedy } = REMEDIES[code] ?? ELSE;
      return level === 'wrong' ? wrong(id, message, remedy) : warning(id, message, remedy);
    });
}
