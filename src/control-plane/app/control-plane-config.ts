import type { WebAddress } from '../../base/lib/web-address.ts';

/** How a control plane is run; `CP_*` says it (decision 13.6). */
export interface ControlPlaneConfig {
  /** Where both ports listen (`CP_HOST`). */
  readonly host: string;
  /** For gateways (`CP_GRPC_PORT`); 0 picks a free one. */
  readonly grpcPort: number;
  /** For people (`CP_HTTP_PORT`); 0 picks a free one. */
  readonly httpPort: number;
  /** `CP_DATA_DIR`. */
  readonly dataDir: string;
  /** `CP_ADMIN_TOKEN`; undefined: made at the first start. */
  readonly adminToken: string | undefined;
  /** 32 bytes that seal stored secrets (`CP_SECRETS_KEY`); undefined: made at the first start. */
  readonly secretsKey: Uint8Array | undefined;
  /** `CP_METRICS_TOKEN`; undefined: metrics need none. */
  readonly metricsToken: string | undefined;
  /** Names and addresses in the server's certificate (`CP_NAMES`), folded, at least one. */
  readonly names: readonly string[];
  /** Milliseconds that calls under way have when it stops (`CP_DRAIN_TIMEOUT`); default 10 s. */
  readonly drainTimeout?: number;
  /** Milliseconds that entries of the audit trail are kept (`CP_AUDIT_RETENTION`); default 400 days. */
  readonly auditRetention?: number;
  /** Who stamps roots (`CP_TSA_URL`); undefined: nobody. */
  readonly tsaUrl?: WebAddress | undefined;
  /** Milliseconds between two stamps of one org (`CP_TSA_INTERVAL`); default 1 h. */
  readonly tsaInterval?: number;
  /** PEM file of the authorities whose stamps are taken (`CP_TSA_CA_FILE`). */
  readonly tsaCaFile?: string | undefined;
  /** A log in which roots are entered (`CP_REKOR_URL`); undefined: none. */
  readonly rekorUrl?: WebAddress | undefined;
  /** PEM file of its public keys (`CP_REKOR_PUBLIC_KEY_FILE`); must be there with the log. */
  readonly rekorPublicKeyFile?: string | undefined;
  /** Milliseconds between two entries of one org (`CP_REKOR_INTERVAL`); default 1 h. */
  readonly rekorInterval?: number;
  /** First part of the origin of each log (`CP_LEDGER_NAME`); undefined: the `kid` of the ledger key. */
  readonly ledgerName?: string | undefined;
  /** Milliseconds for which a checkpoint stays the published one (`CP_CHECKPOINT_INTERVAL`); default 5 min. */
  readonly checkpointInterval?: number;
  /** Verifier keys of the witnesses whose cosignatures are taken (`CP_WITNESS_KEYS`). */
  readonly witnessKeys?: readonly string[];
}
