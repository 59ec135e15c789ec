import type { Operation, Provider } from '../../base/catalogue/types.ts';
import { usualPath } from '../../base/catalogue/usual-path.ts';
import { removeJsonMember, setJsonMember } from '../../base/json/json-edit.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import type { Action } from '../../base/model/action-request.ts';
import { type AiBody, readAiBody } from './body.ts';
import { canonicalPath } from './path.ts';
import { switchStreamVerb } from './place-edit.ts';
import { isDeploymentPlace } from './places.ts';

const NO_BYTES = new Uint8Array(0);

/**
 * The path of a structured call: its own, else the connector's default path for its type with the model put in
 * (decision 8.6).
 * @throws GatewayError `invalid_request` when there is none, or it needs a model and the call names none
 */
export function directPath(action: Action, provider: Provider | undefined): string {
  if (action.target_path !== undefined) return action.target_path;
  const usual = usualPath(provider, action.type, action.params);
  if ('path' in usual) return canonicalPath(usual.path, provider !== undefined);
  throw new GatewayError('invalid_request', 'The action request is not valid.', { details: [usual.missing] });
}

export interface DirectCall {
  /** With the dialect's stream verb. */
  readonly path: string;
  /** What is sent and what policy sees of it. Its bytes are empty when nothing is to be sent. */
  readonly body: AiBody;
}

/**
 * Puts the params of a structured call into the form that its dialect sends (decision 8.6): a stream switch that stands
 * in the path is put there and taken out of the body, and so is a model that the path names; a GET without params has
 * no body. The result is read as any body is, with the same guards.
 * @throws GatewayError `ambiguous_body`, `body_too_deep`
 */
export function directCall(action: Action, path: string, operation: Operation): DirectCall {
  const { params } = action;
  const dialect = operation.dialect;
  const names = Object.keys(params);
  if (names.length === 0 && (action.method === 'GET' || action.method === 'HEAD')) {
    return { path, body: readAiBody({ operation, contentType: undefined, bytes: NO_BYTES, path }) };
  }
  let text = JSON.stringify(params);
  let sentPath = path;
  if (dialect?.stream?.in === 'path' && typeof params['stream'] === 'boolean') {
    sentPath = switchStreamVerb(path, dialect.stream, params['stream']) ?? path;
    if (dialect.stream.verbs?.body !== 'stream') text = removeJsonMember(text, 'stream');
  }
  // Such a provider would stream to a caller who asked for no stream.
  if (dialect?.stream?.in === 'body' && dialect.stream.absent === true && !names.includes(dialect.stream.path))
    text = setJsonMember(text, [dialect.stream.path], false) ?? text;
  // Read with the model still in it, so that a contradiction shows.
  const read = readJson(operation, text, sentPath);
  const [place] = dialect?.model ?? [];
  const inPath = place?.in === 'path' && place.pattern.test(sentPath) && !isDeploymentPlace(place, sentPath);
  if (!inPath || !names.includes('model')) return { path: sentPath, body: read };
  return { path: sentPath, body: readJson(operation, removeJsonMember(text, 'model'), sentPath) };
}

function readJson(operation: Operation, text: string, path: string): AiBody {
  return readAiBody({ operation, contentType: 'application/json', bytes: Buffer.from(text), text, path });
}
