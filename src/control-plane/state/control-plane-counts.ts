import type { AnchorCounts } from './anchored-roots.ts';
import type { CosignatureCount } from './org-checkpoints.ts';

/**
 * What the control plane counts, for its metrics. Read at any time; nothing is computed but sums over what is in
 * memory.
 */
export interface ControlPlaneCounts {
  readonly orgs: number;
  /** Nodes whose certificate counts. */
  readonly enrolledNodes: number;
  /** Streams of updates that are open. */
  readonly connectedStreams: number;
  /** Hashes of all orgs that are under no root yet. */
  readonly pendingHashes: number;
  /** Orgs whose ledger could not be opened. */
  readonly ledgersAside: number;
  /** Orgs whose gateways know a newer root than the control plane has. */
  readonly ledgersBehind: number;
  /** When the last restore was declared, milliseconds since the epoch; undefined: none was. */
  readonly restoredAt: number | undefined;
  /** Time stamps of roots. */
  readonly timestamps: AnchorCounts;
  /** Entries of roots in the transparency log. */
  readonly logEntries: AnchorCounts;
  /** Cosignatures, by the name of their witness. */
  readonly cosignatures: readonly CosignatureCount[];
  /** When the next key of each use signs, milliseconds since the epoch; undefined: there is none. */
  readonly keySwitches: readonly (readonly [use: string, at: number | undefined])[];
  /** Nodes that have not fetched the list of keys as it is now. */
  readonly unawareNodes: number;
  /** Hashes that were acknowledged since the start; one that was handed in twice counts twice. */
  readonly acknowledgedHashes: number;
  /** Usage reports that were taken since the start. */
  readonly telemetryReports: number;
  /** Calls of gateways since the start, by method and how they ended: `OK` or the name of a fault. */
  readonly calls: readonly CountedCall[];
}

/** Connections of one port. */
export interface PortConnections {
  readonly port: 'grpc' | 'http';
  readonly open: number;
  /** Since the start: closed to make room for others, and because their caller had as many as he may. */
  readonly closed: { readonly madeWay: number; readonly refused: number };
}

export interface CountedCall {
  readonly method: string;
  readonly result: string;
  readonly count: number;
}
