/** Why a delegation token does not hold. These are the reason codes of the denial (decision 9.4). */
export type DelegationCode =
  | 'delegation_malformed'
  | 'delegation_unknown_key'
  | 'delegation_bad_signature'
  | 'delegation_expired'
  | 'delegation_not_yet_valid'
  | 'delegation_org_mismatch'
  | 'delegation_workload_mismatch'
  | 'delegation_method_not_allowed'
  | 'delegation_resource_not_allowed'
  | 'delegation_action_not_allowed'
  | 'delegation_target_not_allowed'
  | 'delegation_model_not_allowed'
  | 'delegation_depth_exceeded'
  | 'delegation_bundle_mismatch'
  | 'delegation_revoked'
  | 'delegation_not_attenuated';

/** A token that is not accepted. The message quotes nothing of the token: it was not verified, or names what its issuer may keep to itself. */
export class DelegationError extends Error {
  readonly code: DelegationCode;

  constructor(code: DelegationCode, message: string) {
    super(message);
    this.name = 'DelegationError';
    this.code = code;
  }
}

/** @throws DelegationError `delegation_malformed` */
export function malformed(what: string): never {
  throw new DelegationError('delegation_malformed', `The delegation token is malformed: ${what}.`);
}
