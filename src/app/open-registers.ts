import { canonicalConnectorId, configuredConnectorId, coversHost } from '../base/catalogue/connector-id.ts';
import type { Config } from '../base/config/config.ts';
import { environmentSecret } from '../base/config/settings-reader.ts';
import type { Logger } from '../base/lib/log.ts';
import { planTierOf } from '../base/model/org.ts';
import type { PassageOptions } from '../decide/policy/refuses-all.ts';
import { lastHeardOrg } from '../link/contact-book.ts';
import { FormerControlPlane } from '../link/former-control-plane.ts';
import { NodeRegister } from '../services/keeper/node-register.ts';
import { ApiKeyService } from '../services/people/api-keys.ts';
import { ChatUserService } from '../services/people/chat-users.ts';
import { CredentialService } from '../services/people/credentials.ts';
import type { LookedUpKeysOptions } from '../services/people/looked-up-keys.ts';
import { ManagementKeyService } from '../services/people/management-keys.ts';
import { OrgPlanService } from '../services/people/org-plans.ts';
import { OrgService } from '../services/people/orgs.ts';
import { ProjectService } from '../services/people/projects.ts';
import { WorkloadService } from '../services/people/workloads.ts';
import { AddonService } from '../services/policy/addons.ts';
import { CustomConnectorService } from '../services/policy/custom-connectors.ts';
import type { LanguageOptions } from '../services/policy/load-policy.ts';
import { PolicyService } from '../services/policy/policies.ts';
import { PolicyPresets } from '../services/policy/policy-presets.ts';
import { fileContext, loadCredentialFiles, passOverCredentialFiles } from './credential-files.ts';
import type { Ground } from './ground.ts';
import { remoteName } from './remote-name.ts';
import { openRemotePolicies, type RemotePolicies } from './remote-policies.ts';

/** What people register and a call is judged by: nothing here counts calls. */
export interface Registers {
  readonly nodes: NodeRegister;
  readonly policies: PolicyService;
  /** Rules that are ready to be switched on. */
  readonly presets: PolicyPresets;
  /** What orgs can switch. */
  readonly addons: AddonService;
  /** Connectors whose callers' sign-in passes where an org has said nothing (`GW_OAUTH_PASSTHROUGH`). */
  readonly oauthPassthrough: ReadonlySet<string>;
  /** Of a data folder that had one and has none now; to be left where exports are opened. */
  readonly former: FormerControlPlane | undefined;
  /** Undefined without a control plane. */
  readonly remotePolicies: RemotePolicies | undefined;
  readonly workloads: WorkloadService;
  readonly orgs: OrgService;
  /** How many requests each org may make in a month. */
  readonly orgPlans: OrgPlanService;
  readonly projects: ProjectService;
  readonly apiKeys: ApiKeyService;
  readonly managementKeys: ManagementKeyService;
  /** Who may press buttons in chats. */
  readonly chatUsers: ChatUserService;
  readonly credentials: CredentialService;
  readonly customConnectors: CustomConnectorService;
  /** What every bundle of this gateway is compiled with. */
  readonly language: LanguageOptions;
}

/** Opens them in order. */
export async function openRegisters(config: Config, ground: Ground): Promise<Registers> {
  const { clock, log, events, store, catalogues, box } = ground;
  // What a control plane said last counts from the start, so that what is kept of its policy is read as it was taken.
  const tier = planTierOf(await lastTier(config, store)) ?? config.planTier;
  const language: LanguageOptions = { tier, connectorId: (text) => canonicalConnectorId(catalogues.current(), text) };
  const customConnectors = await openConnectors(config, ground, () => credentials);
  const presets = new PolicyPresets();
  const policies = await openPolicies(config, ground, presets, language);
  // A setting holds for all orgs.
  const oauthPassthrough = new Set(
    config.oauthPassthrough.map((name) => configuredConnectorId(catalogues.shipped(), name, 'GW_OAUTH_PASSTHROUGH')),
  );
  const addons = new AddonService({ clock, catalogues, policies, presets, oauthPassthrough });
  const orgPlans = await OrgPlanService.open(store, { limit: config.monthlyRequestLimit, overage: config.overageEnabled });
  const remotePolicies = await openRemotePolicies(config, ground, { policies, addons, orgPlans });
  const credentials = await CredentialService.open({ store, box, clock, log, nodeId: config.nodeId, environment: environmentSecret });
  const workloads = await WorkloadService.open(store);
  const orgs = await OrgService.open(store, config.cpAddr !== undefined);
  const managementKeys = await ManagementKeyService.open({ store, clock });
  const former = config.cpAddr === undefined ? await FormerControlPlane.find(store, log) : undefined;
  await former?.leaveRegisters({ workloads, credentials, policies, orgs });
  if (config.cpAddr === undefined)
    await loadCredentialFiles(config.credentialsDir, credentials, fileContext(catalogues, customConnectors), log);
  else await passOverCredentialFiles(config.credentialsDir, log);
  return {
    nodes: await NodeRegister.open(store, clock, config.nodeId, ground.cluster),
    policies,
    presets,
    addons,
    oauthPassthrough,
    remotePolicies,
    orgPlans,
    language,
    workloads,
    orgs,
    former,
    projects: await ProjectService.open(store, clock),
    apiKeys: await ApiKeyService.open({ store, clock, events, remote: remoteFrom(config, log) }),
    managementKeys,
    chatUsers: await ChatUserService.open({ store, clock, keys: managementKeys }),
    credentials,
    customConnectors,
  };
}

async function lastTier({ cpAddr, orgId }: Config, store: Ground['store']): Promise<string | undefined> {
  return cpAddr === undefined || orgId === undefined ? undefined : (await lastHeardOrg(store, orgId))?.plan_tier;
}

/** Where a control plane makes the API keys. */
function remoteFrom(config: Config, log: Logger): Pick<LookedUpKeysOptions, 'from' | 'log'> | undefined {
  const from = remoteName(config);
  return from === undefined ? undefined : { from, log };
}

function openPolicies(config: Config, ground: Ground, presets: PolicyPresets, language: LanguageOptions): Promise<PolicyService> {
  const { store, clock, log, events } = ground;
  const place = { dir: config.policiesDir, nodeId: config.nodeId, presets, managedRemotely: config.cpAddr !== undefined };
  const covers: PassageOptions['covers'] = (connectorId, host) => coversHost(ground.catalogues.current(), connectorId, host);
  const passage = { asksPeople: config.approvalEnabled, covers };
  return PolicyService.open({ ...place, passage, store, clock, log, events, ...language });
}

/** @param credentials asked when one is changed: they are opened later */
function openConnectors(config: Config, ground: Ground, credentials: () => CredentialService): Promise<CustomConnectorService> {
  const { store, clock, log, catalogues } = ground;
  const hasCredential = (id: string): boolean =>
    credentials()
      .list()
      .some(({ connector_id: known }) => known === id);
  const { egressAllow, connectorHostsDeny, publicNames } = config;
  const isDenied = (host: string): boolean => connectorHostsDeny.has(host) || publicNames.has(host);
  return CustomConnectorService.open({ store, clock, log, catalogues, egressAllow, isDenied, hasCredential });
}
