/** Why a gateway has no certificate of its control plane. */
export type EnrolmentFault =
  | 'no_org'
  | 'no_token'
  | 'bad_token'
  | 'ca_mismatch'
  | 'ca_not_shown'
  | 'token_refused'
  | 'not_admitted'
  | 'unreachable'
  | 'bad_answer'
  | 'bad_identity'
  | 'other_identity';

/** Keeps the gateway from starting; the message is for a person and says what to do (decision 13.7). */
export class EnrolmentError extends Error {
  readonly fault: EnrolmentFault;

  constructor(fault: EnrolmentFault, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'EnrolmentError';
    this.fault = fault;
  }
}
