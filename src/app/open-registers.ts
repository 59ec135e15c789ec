import { canonicalConnectorId } from '../base/catalogue/connector-id.ts';
import type { Config } from '../base/config/config.ts';
import { environmentSecret } from '../base/config/environment.ts';
import { ApiKeyService } from '../services/api-keys.ts';
import { CredentialService } from '../services/credentials.ts';
import { CustomConnectorService } from '../services/custom-connectors.ts';
import type { LanguageOptions } from '../services/load-policy.ts';
import { ManagementKeyService } from '../services/management-keys.ts';
import { NodeRegister } from '../services/node-register.ts';
import { OrgService } from '../services/orgs.ts';
import { PolicyService } from '../services/policies.ts';
import { PolicyPresets } from '../services/policy-presets.ts';
import { ProjectService } from '../services/projects.ts';
import { WorkloadService } from '../services/workloads.ts';
import { fileContext, loadCredentialFiles } from './credential-files.ts';
import type { Ground } from './ground.ts';

/** What people register and a call is judged by: nothing here counts calls. */
export interface Registers {
  readonly nodes: NodeRegister;
  readonly policies: PolicyService;
  /** Rules that are ready to be switched on. */
  readonly presets: PolicyPresets;
  readonly workloads: WorkloadService;
  readonly orgs: OrgService;
  readonly projects: ProjectService;
  readonly apiKeys: ApiKeyService;
  readonly managementKeys: ManagementKeyService;
  readonly credentials: CredentialService;
  readonly customConnectors: CustomConnectorService;
  /** What every bundle of this gateway is compiled with. */
  readonly language: LanguageOptions;
}

/** Opens them in order. */
export async function openRegisters(config: Config, ground: Ground): Promise<Registers> {
  const { clock, log, events, store, catalogues, box } = ground;
  const language: LanguageOptions = { tier: config.planTier, connectorId: (text) => canonicalConnectorId(catalogues.current(), text) };
  const customConnectors = await openConnectors(config, ground, () => credentials);
  const presets = new PolicyPresets();
  const policies = await openPolicies(config, ground, presets, language);
  const credentials = await CredentialService.open({ store, box, clock, log, nodeId: config.nodeId, environment: environmentSecret });
  await loadCredentialFiles(config.credentialsDir, credentials, fileContext(catalogues, customConnectors), log);
  return {
    nodes: await NodeRegister.open(store, clock, config.nodeId),
    policies,
    presets,
    language,
    workloads: await WorkloadService.open(store),
    orgs: await OrgService.open(store, config.cpAddr !== undefined),
    projects: await ProjectService.open(store, clock),
    apiKeys: await ApiKeyService.open({ store, clock, events }),
    managementKeys: await ManagementKeyService.open({ store, clock }),
    credentials,
    customConnectors,
  };
}

function openPolicies(config: Config, ground: Ground, presets: PolicyPresets, language: LanguageOptions): Promise<PolicyService> {
  const { store, clock, log, events } = ground;
  // No setting starts control-plane mode yet (later-settings.ts).
  const place = { dir: config.policiesDir, nodeId: config.nodeId, presets, managedRemotely: false };
  return PolicyService.open({ ...place, store, clock, log, events, ...language });
}

/** @param credentials asked when one is changed: they are opened later */
function openConnectors(config: Config, ground: Ground, credentials: () => CredentialService): Promise<CustomConnectorService> {
  const { store, clock, log, catalogues } = ground;
  const hasCredential = (id: string): boolean =>
    credentials()
      .list()
      .some(({ connector_id: known }) => known === id);
  return CustomConnectorService.open({ store, clock, log, catalogues, egressAllow: config.egressAllow, hasCredential });
}
