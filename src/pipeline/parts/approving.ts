import type { Approval } from '../../base/model/approval.ts';
import type { AskedByRule } from '../../decide/policy/approval-standing.ts';
import type { Verdict } from '../../decide/policy/verdict.ts';

/** Whether a person has to be asked about the call. */
export interface Approving {
  /** The rules that ask, whether or not a person has given it for them; none: nobody is asked. */
  readonly rules: readonly AskedByRule[];
  /**
   * What persons have given for such a request and nobody has used yet, the newest first; whether it is this very one
   * is seen when all of it is settled.
   */
  readonly given: readonly Approval[];
  /** The action hash of the request before policy has sent it elsewhere; undefined where nobody is asked. */
  readonly requestHash: string | undefined;
  /** What policy would say if all of these rules were content, where it would let the call pass: where it goes then. */
  readonly onceGiven: Verdict | undefined;
}

/** Where a call goes, as it is bound and shown. */
export interface BoundPlace {
  readonly connector_id: string;
  readonly target_host: string;
  /** Scheme, host and port, where these are not https and 443. */
  readonly target_origin?: string;
  /** Without a key in its query. */
  readonly target_path: string;
}

/** What a call is approved as. */
export interface BoundAction {
  readonly actionHash: string;
  readonly requestHash: string;
  readonly place: BoundPlace;
  readonly rules: readonly AskedByRule[];
}

/** A call that may be made: nobody has to be asked, or somebody was. Only the stage that sees to it makes one. */
export interface Cleared {
  /** What is spent on it, the newest first. */
  readonly by: readonly Approval[];
  /** Undefined where nobody had to be asked. */
  readonly bound: BoundAction | undefined;
}
