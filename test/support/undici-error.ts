import { GatewayError } from '../../src/base/lib/gateway-error.ts';
import { formatAuthority } from '../../src/base/lib/host.ts';
import { codeOf, messageOf } from '../../src/base/lib/thrown.ts';
import type { CallInLane } from '../../src/outbound/net/lane.ts';
import { answerError, bodyLengthError, lostError, NOT_HTTP, SWITCHED, TOO_LARGE } from '../../src/outbound/net/upstream-error.ts';

/** undici's codes for an answer that is not HTTP. */
const ANSWERS: Readonly<Record<string, string>> = {
  UND_ERR_HEADERS_OVERFLOW: TOO_LARGE,
  UND_ERR_RES_EXCEEDED_MAX_SIZE: 'sent a body that is too large',
};
/** The same, where all that undici gives is a message. */
const SOCKET_MESSAGES: Readonly<Record<string, string>> = {
  'bad upgrade': SWITCHED,
  'bad response': 'sent an answer that belongs to no request',
};

/** What the gateway says where undici says this; errors that are not undici's pass unchanged. */
export function inOurWords({ phase, request: { authority } }: CallInLane, error: unknown): unknown {
  const code = codeOf(error);
  const what = ANSWERS[code] ?? (code === 'UND_ERR_SOCKET' ? SOCKET_MESSAGES[messageOf(error)] : undefined);
  if (what !== undefined) return answerError(authority, what, error);
  // undici 7 leaves the code of its parser's errors undefined; llhttp's reason stands in the message.
  if (code.startsWith('HPE_') || (error instanceof Error && error.name === 'HTTPParserError'))
    return messageOf(error).includes('EOF') ? lostError(authority, 'answering', error) : answerError(authority, NOT_HTTP, error);
  if (code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH') return lostError(authority, 'answering', error);
  if (code === 'UND_ERR_SOCKET') return lostError(authority, phase, error);
  if (code === 'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH') return bodyLengthError(error);
  if (code === 'UND_ERR_INVALID_ARG' || code === 'UND_ERR_NOT_SUPPORTED') {
    const message = `The request cannot be sent to ${formatAuthority(authority)}: ${messageOf(error)}.`;
    return new GatewayError('invalid_request', message, { cause: error });
  }
  if (code === 'UND_ERR_DESTROYED' || code === 'UND_ERR_CLOSED')
    return new GatewayError('shutting_down', 'The gateway is draining.', { cause: error });
  return error;
}
