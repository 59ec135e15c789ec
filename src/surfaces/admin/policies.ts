import { timestamp } from '../../base/lib/clock.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { unusedFilesMessage } from '../../decide/policy/lint.ts';
import type { ActivePolicy, PolicyService } from '../../services/policies.ts';
import type { ShadowPolicy } from '../../services/shadow-policy.ts';
import type { Route } from '../http/route.ts';

function shown(active: ActivePolicy, shadow: ShadowPolicy | undefined): unknown {
  const { bundle_id, version, source, loaded_at, policy } = active;
  return {
    bundle_id,
    version,
    source,
    loaded_at: timestamp(loaded_at),
    ...(policy.unusedFiles.length === 0 ? {} : { warnings: [unusedFiles(policy.unusedFiles)] }),
    ...(shadow === undefined ? {} : { shadow: shownShadow(shadow) }),
  };
}

/** As `gw policy check` says it. */
function unusedFiles(files: readonly string[]): unknown {
  return { path: 'files', code: 'files_do_not_count', message: unusedFilesMessage(files), files };
}

function shownShadow(shadow: ShadowPolicy): unknown {
  const { loaded_at, ...state } = shadow.state();
  return { ...state, ...(loaded_at === undefined ? {} : { loaded_at: timestamp(loaded_at) }) };
}

/** The active policy bundle (specification, "Gateway admin API"; decisions 5.1, 5.2, 5.5). */
export function policyRoutes(policies: PolicyService, shadow: ShadowPolicy | undefined): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/v1/admin/policies',
      auth: 'admin',
      summary: 'The active bundle: id, version, source, time of loading; and the shadow bundle, if there is one.',
      handle: () => ({ status: 200, json: shown(policies.current(), shadow) }),
    },
    {
      method: 'PUT',
      path: '/v1/admin/policies',
      auth: 'admin',
      summary: 'Hot-loads a bundle from `bundle_yaml`, at most 524,288 characters; one that does not load changes nothing.',
      handle: async (request) => ({ status: 200, json: shown(await policies.put(bundleText(await request.json())), shadow) }),
    },
    {
      method: 'POST',
      path: '/v1/admin/policies/reload',
      auth: 'admin',
      summary:
        'Reads bundle, rule files, add-ons and overlays from the policies folder again, and the shadow bundle; 400 in control-plane mode.',
      handle: async () => {
        const active = await policies.reload();
        await shadow?.load('reload');
        return { status: 200, json: shown(active, shadow) };
      },
    },
  ];
}

/** Longest bundle that is put, in characters: some thousand rules. Compiling what was read takes about a second for each million, in which no other request is served. */
export const MAX_PUT_LENGTH = 524_288;

function bundleText(body: unknown): string {
  if (typeof body === 'object' && body !== null && 'bundle_yaml' in body && typeof body.bundle_yaml === 'string') {
    const extra = Object.keys(body).filter((name) => name !== 'bundle_yaml');
    if (extra.length === 0) return withinLimit(body.bundle_yaml);
    const details = extra.map((path) => ({ path, message: 'is not a member of this body' }));
    throw new GatewayError('invalid_request', 'The body has members that do not belong there.', { details });
  }
  throw new GatewayError('invalid_request', 'The body needs bundle_yaml.', { details: [{ path: 'bundle_yaml', message: 'must be text' }] });
}

function withinLimit(bundle: string): string {
  if (bundle.length <= MAX_PUT_LENGTH) return bundle;
  throw new GatewayError(
    'body_too_large',
    `The bundle has ${bundle.length} characters and one that is put at most ${MAX_PUT_LENGTH}: reading more would hold up every other request. Write it into the policies folder, in several files under files:, and reload.`,
  );
}
