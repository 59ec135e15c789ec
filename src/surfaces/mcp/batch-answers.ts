import { nextTurn } from '../../base/lib/loop-turns.ts';
import { REPORT_BOUNDS } from '../../base/model/work-bounds.ts';
import { errorText, invalidRequest, RPC, RpcError, type RpcMessage, type RpcRequest, readMessage } from './json-rpc.ts';

/** Most messages of a batch. */
export const MAX_BATCH: number = REPORT_BOUNDS.batchMessages.one;

/**
 * Answers a batch, one message after the other: it is no way to more of the gateway at a time, nor to answers without
 * end. What stands behind the message with which the answers have become too long is not carried out, and told so.
 * @param maxBytes of the answers together, as text
 * @param answer of one message; undefined: it has none @throws whatever ends the batch
 * @returns the answers as one text; undefined where there are none
 */
export async function batchAnswers(
  body: readonly unknown[],
  answer: (message: RpcMessage) => Promise<string | undefined>,
  maxBytes: number = REPORT_BOUNDS.batchBytes.one,
): Promise<string | undefined> {
  const texts: string[] = [];
  let bytes = 0;
  for (const value of body) {
    const message = readMessage(value);
    const isLeftOut = message.kind === 'request' && bytes > maxBytes;
    const text = isLeftOut ? errorText(message.id, tooLarge(maxBytes)) : await answered(message, answer);
    if (text === undefined) continue;
    bytes += Buffer.byteLength(text);
    texts.push(text);
    // What one message asks for may be done in one go; that of a hundred may not.
    if (!isLeftOut) await nextTurn();
  }
  return texts.length === 0 ? undefined : `[${texts.join(',')}]`;
}

async function answered(message: RpcMessage, answer: (message: RpcMessage) => Promise<string | undefined>): Promise<string | undefined> {
  if (message.kind === 'invalid') return errorText(message.id ?? null, invalidRequest('This is no JSON-RPC 2.0 message.'));
  if (isInitialize(message)) return errorText(message.id, invalidRequest('initialize is no part of a batch.'));
  return answer(message);
}

function isInitialize(message: RpcMessage): message is RpcRequest {
  return message.kind === 'request' && message.method === 'initialize';
}

function tooLarge(maxBytes: number): RpcError {
  const message = `Not carried out: the answers of this batch are larger than ${maxBytes} bytes already. Send it by itself.`;
  return new RpcError(RPC.batchTooLarge, message, { code: 'batch_too_large' });
}
