import type { CatalogueInForce, CurrentCatalogue } from '../base/catalogue/catalogue-in-force.ts';
import type { Events } from '../base/events/bus.ts';
import type { Clock } from '../base/lib/clock.ts';
import type { ArrivalHead } from '../base/model/arrival.ts';
import type { HealthWarning, NotReady } from '../base/model/not-ready.ts';
import type { CertificateAuthority } from '../inbound/ca/certificate-authority.ts';
import type { PortIssuer } from '../inbound/ca/port-issuer.ts';
import type { InclusionProof } from '../ledger/inclusion-proof.ts';
import type { CutSpan } from '../ledger/ledger-restore.ts';
import type { HandedOnWrites } from '../link/handed-on-writes.ts';
import type { NodeRegister } from '../services/keeper/node-register.ts';
import type { Discovery } from '../services/learning/discovery.ts';
import type { BudgetService } from '../services/money/budgets.ts';
import type { RateLimitService } from '../services/money/rate-limits.ts';
import type { AuditTrail } from '../services/orgs/audit-trail.ts';
import type { ApiKeyService } from '../services/people/api-keys.ts';
import type { ChatUserService } from '../services/people/chat-users.ts';
import type { ConsoleDoor } from '../services/people/console-door.ts';
import type { ConsoleSessions } from '../services/people/console-sessions.ts';
import type { CredentialChange, CredentialService } from '../services/people/credentials.ts';
import type { DelegationService } from '../services/people/delegations.ts';
import type { ManagementKeyService } from '../services/people/management-keys.ts';
import type { OrgPlanService } from '../services/people/org-plans.ts';
import type { OrgService } from '../services/people/orgs.ts';
import type { ProjectService } from '../services/people/projects.ts';
import type { WorkloadService } from '../services/people/workloads.ts';
import type { AddonService } from '../services/policy/addons.ts';
import type { CustomConnectorService } from '../services/policy/custom-connectors.ts';
import type { PolicyService } from '../services/policy/policies.ts';
import type { ShadowPolicy } from '../services/policy/shadow-policy.ts';
import type { PriceListRefresh } from '../services/prices/price-list-refresh.ts';
import type { PriceLists } from '../services/prices/price-lists.ts';
import type { UnpricedModels } from '../services/prices/unpriced-models.ts';
import type { Commit } from '../services/registers/commit.ts';
import type { UsageReports } from '../services/reports/usage-reports.ts';
import type { ApprovalService } from '../services/review/approvals.ts';
import type { QuarantineService } from '../services/review/quarantines.ts';
import type { StopService } from '../services/review/stops.ts';
import type { AlertService } from '../services/sending/alerts/alert-service.ts';
import type { GatewayPlace } from '../services/sending/alerts/card-parts.ts';
import type { ExportService } from '../services/sending/exports/export-service.ts';
import type { UsageTelemetry } from '../services/sending/telemetry/usage-telemetry.ts';
import type { Store } from '../storage/contract/store.ts';
import type { Cluster } from '../storage/drivers/open-store.ts';

/** What a credential is checked against. */
export interface CredentialBodyContext {
  /**
   * Canonical connector id that can have a key, undefined for any other text; with an org also for a connector that
   * another org has made.
   */
  readonly keyedConnector: (text: string, orgId?: string) => string | undefined;
  /** True when a canonical host is one of the connector's. */
  readonly coversHost: (connectorId: string, host: string) => boolean;
}

/**
 * What holds of an org's budgets when something that counts them cannot be reached (specification, "Org budget
 * config").
 */
export interface OrgBudgetConfig {
  readonly cp_down_policy: 'permissive' | 'strict';
  readonly redis_down_policy: 'allow' | 'deny';
  readonly grace_seconds: number;
  readonly grace_seconds_override: number | null;
  /** `unconfigured`: this gateway counts by itself. */
  readonly redis_status: 'unconfigured' | 'connected' | 'offline';
}

/** Whether work should be sent to the gateway (decision 12.2). */
export interface ReadinessFacts {
  /** The start-up grace is not over (`GW_HEALTHZ_STARTUP_GRACE`). */
  readonly starting: boolean;
  /** Empty: it is ready. */
  reasons(): readonly NotReady[];
  /** What an operator should know. */
  warnings(): readonly HealthWarning[];
}

/** What is told of the control plane. */
export interface ControlPlaneHealth {
  readonly submission: { readonly lastSubmitAt: string | undefined };
  readonly contact: {
    readonly status: 'connected' | 'offline';
    readonly posture: 'normal' | 'permissive' | 'strict';
    /** Milliseconds since the epoch. */
    readonly offlineSince: number | undefined;
  };
  /** Milliseconds since the epoch. */
  readonly certificateExpiresAt: number;
  warnings(): readonly HealthWarning[];
}

/** Where people sign in to the console. */
export interface ConsoleServices {
  readonly sessions: ConsoleSessions;
  readonly door: Pick<ConsoleDoor, 'refusal' | 'cookie'>;
  /**
   * Tells of a secret that lets nobody in, and resolves when that may be answered.
   * @param presented undefined: it was a code @param isOfAdmin it was a try of the admin token
   * @throws GatewayError `too_many_attempts`
   */
  wrong(head: ArrivalHead, presented: string | undefined, isOfAdmin: boolean): Promise<void>;
}

/** What operations stand on. Nothing of it is used before one is asked for. */
export interface OperationServices {
  readonly store: Pick<Store, 'recordById' | 'recordByHash' | 'records' | 'counters'>;
  /** What is proven of records; undefined without a control plane. */
  readonly ledger:
    | {
        /** @throws GatewayError `ledger_proof_invalid`, `control_plane_unreachable` */
        inclusion(record: {
          readonly id: string;
          readonly hash: string;
        }): Promise<
          | { readonly status: 'pending_inclusion' }
          | { readonly status: 'verified'; readonly inclusion_proof: InclusionProof; readonly cut_by_restore?: CutSpan }
        >;
      }
    | undefined;
  readonly audit: AuditTrail;
  /** What calls are charged, and how the list is renewed. */
  readonly prices: {
    readonly lists: PriceLists;
    readonly refresh: PriceListRefresh;
    readonly unpriced: UnpricedModels;
    readonly catalogues: CatalogueInForce;
    readonly clock: Clock;
  };
  /** A control plane owns what operations write that are marked `ownedRemotely`. */
  readonly managedRemotely: boolean;
  /** Hands on to it what is written here; undefined without one. */
  readonly remoteWrites: Pick<HandedOnWrites, 'write'> | undefined;
  readonly nodes: NodeRegister;
  readonly policies: PolicyService;
  /** The kept bundle of the control plane; undefined where there is none to keep. */
  readonly policyCache: { clear(commit: Commit): Promise<void> } | undefined;
  /** Undefined without `GW_POLICIES_SHADOW`. */
  readonly shadow: ShadowPolicy | undefined;
  readonly workloads: WorkloadService;
  readonly projects: { readonly service: ProjectService; readonly clock: Clock };
  readonly apiKeys: {
    readonly service: ApiKeyService;
    readonly clock: Clock;
    /** Of this gateway; undefined when it serves every org. */
    readonly orgId: string | undefined;
  };
  readonly managementKeys: {
    readonly service: ManagementKeyService;
    readonly clock: Clock;
    /** Of this gateway; undefined when it serves every org. */
    readonly orgId: string | undefined;
  };
  readonly alerts: AlertService;
  readonly exports: ExportService;
  readonly telemetry: UsageTelemetry;
  readonly approvals: ApprovalService;
  /** Buttons in chats. */
  readonly chat: {
    readonly users: ChatUserService;
    /** `GW_SLACK_SIGNING_SECRET`; undefined: Slack's messages have none. */
    readonly slackSecret: string | undefined;
    readonly place: GatewayPlace;
    readonly clock: Clock;
    readonly events: Events;
  };
  /** Undefined when the console is switched off (`GW_CONSOLE_ENABLED=false`). */
  readonly console: ConsoleServices | undefined;
  readonly quarantines: QuarantineService;
  readonly stops: StopService;
  readonly delegations: DelegationService;
  readonly orgs: {
    readonly service: OrgService;
    /** Of this gateway; undefined when it serves every org. */
    readonly orgId: string | undefined;
  };
  readonly orgPlans: OrgPlanService;
  readonly rateLimits: RateLimitService;
  readonly budgets: {
    readonly service: BudgetService;
    readonly clock: Clock;
    readonly defaultOrg: string;
    /** The canonical connector id of a provider's name; undefined when there is none (decision 1). */
    readonly canonicalProvider: (text: string) => string | undefined;
    readonly config: () => OrgBudgetConfig;
  };
  readonly credentials: CredentialBodyContext & {
    readonly service: CredentialService;
    /** Reads the files of `GW_CREDENTIALS_DIR` and upserts each credential; returns their ids. */
    readonly reload: (commit: Commit) => Promise<readonly string[]>;
    /** What these files hold, where it is not this gateway that stores it. */
    readonly inFiles: () => Promise<readonly CredentialChange[]>;
  };
  readonly connectors: {
    readonly catalogues: CurrentCatalogue;
    /** Connector id by `action.type`, as registered on the gateway. */
    readonly actionTypes: ReadonlyMap<string, string>;
    /** `GW_PRICING_CACHED`: how calls that are only described are estimated. */
    readonly pricingCached: boolean;
    /** True when a usable credential is stored for the connector. */
    readonly hasCredential: (connectorId: string) => boolean;
    /** What went wrong with the last call through the connector; undefined when nothing did. */
    readonly lastError: (connectorId: string) => { readonly at: string; readonly code: string } | undefined;
  };
  /** What orgs can switch. */
  readonly addons: AddonService;
  /** Connectors that orgs have made. */
  readonly customConnectors: CustomConnectorService;
  readonly reports: {
    readonly reports: UsageReports;
    readonly clock: Clock;
    /** The org of a dashboard query that names none. */
    readonly defaultOrg: string;
  };
  readonly health: {
    readonly nodeId: string;
    readonly readiness: ReadinessFacts;
    readonly connectors: () => readonly { readonly id: string; readonly version: string; readonly healthy: boolean }[];
    readonly bundle: () => { readonly bundle_id: string; readonly version: string; readonly sequence?: number; readonly kid?: string };
    /** How it stands with the control plane; undefined without one. */
    readonly controlPlane: ControlPlaneHealth | undefined;
    /** Undefined where this gateway is the only one that has its store. */
    readonly cluster: Pick<Cluster, 'health'> | undefined;
  };
  readonly trust: {
    /** Whether clients reach the proxy by TLS. */
    readonly secureProxy: boolean;
    /** Undefined when interception is off. */
    readonly ca: CertificateAuthority | undefined;
    /** Who has signed the certificate of the ports; undefined: they have none, or there is no root. */
    readonly portIssuer: Pick<PortIssuer, 'mayDropFormer'> | undefined;
    readonly catalogues: CurrentCatalogue;
    /** `GW_ORG_ID`, else `default`: what orgs have made is shown of this one alone where nobody says who asks. */
    readonly ownOrg: string;
  };
  /** Undefined when `GW_DISCOVERY_ENABLED=false`: then its operations are 404. */
  readonly discovery: Discovery | undefined;
  /** The OpenAPI document of all operations, or of those of the management API; made once. */
  readonly description: (of: 'all' | 'management') => Uint8Array;
}
