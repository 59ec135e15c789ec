import type { ControlPlaneCalls, EnrolmentCalls } from './messages.ts';
import { MAX_MESSAGE_BYTES } from './protocol.ts';

const KIB = 1_024;

/** What the message of a call may be at most. */
export interface CallBound {
  /** Bytes. */
  readonly bytes: number;
  /**
   * Members as they stand on the wire, each element of a list counted: an empty one takes two bytes there and a hundred
   * times that when it is read.
   */
  readonly members: number;
  /** Its answer may be as large as a message can be: few of those are made and held at a time. */
  readonly answersMuch?: true;
}

/** A call that says a few short things of its caller. */
const SHORT: CallBound = { bytes: 8 * KIB, members: 32 };
/** A call that asks for something by a hash or a cursor. */
const ASKS: CallBound = { bytes: KIB, members: 8 };
const FETCHES: CallBound = { ...ASKS, answersMuch: true };

/**
 * What each call may send (decision 13.15). The one that needs no certificate has the least that a signing request fits
 * into.
 */
export const CALL_BOUNDS: Readonly<Record<keyof ControlPlaneCalls | keyof EnrolmentCalls, CallBound>> = {
  Enroll: { bytes: 12 * KIB, members: 8 },
  Renew: { bytes: 12 * KIB, members: 8 },
  CheckIn: SHORT,
  StreamUpdates: SHORT,
  FetchBundle: FETCHES,
  FetchWorkloads: FETCHES,
  FetchCredentials: FETCHES,
  FetchExportConfig: FETCHES,
  FetchAddons: FETCHES,
  FetchOverlays: FETCHES,
  FetchKeys: ASKS,
  LookUpApiKey: ASKS,
  FetchProof: ASKS,
  /** A signed root. */
  CompareLedger: { bytes: 8 * KIB, members: 8 },
  /** 4,096 hashes of 34 bytes each; one more is answered by its own rule. */
  SubmitHashes: { bytes: 160 * KIB, members: 4_128 },
  /** The overlays of an org, or a thousand credentials. */
  Write: { bytes: MAX_MESSAGE_BYTES, members: 1_024 },
  /** 262,144 characters. */
  ReportTelemetry: { bytes: KIB * KIB, members: 8 },
};
