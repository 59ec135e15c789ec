import type { CredentialMode } from '../../base/model/keys.ts';

/** What the choice looks at; a stored credential is one. */
export interface CredentialCandidate {
  readonly credential_id: string;
  readonly connector_id: string;
  readonly mode: CredentialMode;
  readonly billing_owner?: string | undefined;
}

/** What policy selects: one id, and filters that all hold. */
export interface CredentialSelection {
  readonly credential_id?: string;
  /** Connector id. */
  readonly provider?: string;
  readonly mode?: string;
  readonly billing_owner?: string;
}

export interface CredentialQuestion {
  /** The caller wrote the call so: it came by the structured API. */
  readonly isEnvelope: boolean;
  /** Canonical id of the connector that takes the call. */
  readonly connectorId: string;
  /** The connector cannot be called without a key. */
  readonly needsCredential: boolean;
  /** Stored aliases that may go to the call's host, in the order of their ids. */
  readonly candidates: readonly CredentialCandidate[];
  /** `credential_hint` of the structured API. */
  readonly hint: string | undefined;
  /** A stored credential of the org has the hint as its id, whatever its connector. */
  readonly hintIsStored: boolean;
  /** The effect of policy; undefined before it was asked, or when no rule selects. */
  readonly select: CredentialSelection | undefined;
  /** The request carries a key of its caller's. */
  readonly callerKey: boolean;
  /** The caller meant its key for another connector than the one that takes the call now (decision 6.9). */
  readonly moved: boolean;
  /**
   * The passthrough toggle of the connector is on, and the caller has an `Authorization` (specification,
   * "Authentication" 5).
   */
  readonly passthrough: boolean;
  /** The org takes its callers' own keys for the connector (decision 10.12). */
  readonly byok: boolean;
}

export type CredentialAnswer =
  | { readonly kind: 'stored'; readonly credentialId: string }
  /** The key of the hint. */
  | { readonly kind: 'hint' }
  /** The caller's own header stays. */
  | { readonly kind: 'caller'; readonly passthrough: boolean }
  | { readonly kind: 'none' }
  | {
      readonly kind: 'refused';
      readonly code: 'credential_not_found' | 'credential_not_allowed' | 'no_credential_candidate' | 'byok_disabled';
      readonly reason: string;
    };

/** Ids of stored credentials have one of these forms; any other hint is a raw key (decision 6.6). */
const CREDENTIAL_ID = /^(?:cred-.*|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$/i;

const CALLER: CredentialAnswer = { kind: 'caller', passthrough: false };
const PASSED: CredentialAnswer = { kind: 'caller', passthrough: true };
const NONE: CredentialAnswer = { kind: 'none' };
const HINT: CredentialAnswer = { kind: 'hint' };

/** Which credential a call takes (decision 6.10). */
export function chooseCredential(question: CredentialQuestion): CredentialAnswer {
  const { isEnvelope, hint, select, candidates, callerKey, moved } = question;
  const ownKey = callerKey && !moved;
  if (isEnvelope && hint !== undefined) return byHint(question, hint);
  if (!isEnvelope && question.passthrough && ownKey) return PASSED;
  if (select) {
    const chosen = candidates.find((candidate) => fits(candidate, select));
    if (chosen) return stored(chosen);
    // Keys of callers are what a rule with `mode: byok` selects; without the word a rule means stored ones.
    if (select.mode === 'byok' && ownKey && fits(keyOfCaller(question), select)) return question.byok ? CALLER : notTaken(question);
    return refused('no_credential_candidate', 'No stored credential is left by what policy selects.');
  }
  return byItself(question, ownKey);
}

/** Nobody has named or selected one. */
function byItself(question: CredentialQuestion, ownKey: boolean): CredentialAnswer {
  const { isEnvelope, candidates, callerKey, byok } = question;
  if (!isEnvelope && ownKey && byok) return CALLER;
  const first = candidates[0];
  if (first) return stored(first);
  if (ownKey) return byok ? CALLER : notTaken(question);
  if (callerKey) return refused('no_credential_candidate', keyOfAnother(question));
  // A proxied call without a key is the provider's to refuse: its answer is what the client's SDK knows.
  if (!isEnvelope || !question.needsCredential) return NONE;
  return refused(
    'no_credential_candidate',
    `The connector ${question.connectorId} needs a key: send it as credential_hint or in action.headers, or store one.`,
  );
}

function byHint(question: CredentialQuestion, hint: string): CredentialAnswer {
  const { candidates, select } = question;
  const found = candidates.find(({ credential_id: id }) => id === hint);
  if (found) {
    return !select || fits(found, select)
      ? stored(found)
      : refused('credential_not_allowed', 'Policy does not leave the credential that the hint names.');
  }
  if (question.hintIsStored)
    return refused('credential_not_allowed', `The credential of the hint is no alias for ${question.connectorId} and this host.`);
  if (CREDENTIAL_ID.test(hint)) return refused('credential_not_found', 'There is no stored credential of this id.');
  if (question.moved) return refused('no_credential_candidate', keyOfAnother(question));
  if (!question.byok) return notTaken(question);
  return !select || fits(keyOfCaller(question), select)
    ? HINT
    : refused('credential_not_allowed', 'Policy does not leave a key of the caller for this call.');
}

/** As a rule's filters see the key that a call carries. */
function keyOfCaller({ connectorId }: CredentialQuestion): CredentialCandidate {
  return { credential_id: '', connector_id: connectorId, mode: 'byok' };
}

function notTaken({ connectorId }: CredentialQuestion): CredentialAnswer {
  return refused('byok_disabled', `This org does not take keys of callers for ${connectorId}, and has stored none for this call.`);
}

function keyOfAnother({ connectorId }: CredentialQuestion): string {
  return `The gateway moves this call to ${connectorId}, where the key that it carries must not go.`;
}

function fits(candidate: CredentialCandidate, select: CredentialSelection): boolean {
  return (
    (select.credential_id === undefined || select.credential_id === candidate.credential_id) &&
    (select.provider === undefined || select.provider === candidate.connector_id) &&
    (select.mode === undefined || select.mode === candidate.mode) &&
    (select.billing_owner === undefined || select.billing_owner === candidate.billing_owner)
  );
}

function stored({ credential_id: credentialId }: CredentialCandidate): CredentialAnswer {
  return { kind: 'stored', credentialId };
}

function refused(code: Extract<CredentialAnswer, { kind: 'refused' }>['code'], reason: string): CredentialAnswer {
  return { kind: 'refused', code, reason };
}
