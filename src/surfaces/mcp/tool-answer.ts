import { isJsonObject } from '../../base/json/json-object.ts';
import type { GatewayError } from '../../base/lib/gateway-error.ts';
import { shownJson } from '../../base/lib/shown-text.ts';
import type { McpRevision } from './mcp-revision.ts';

/** Members of the result of `tools/call`, as text: the answer is written out once and stands in both places. */
export function toolAnswer(answer: unknown, { structured }: McpRevision): string {
  // A tool that answers nothing has done what it was asked for.
  const value = answer ?? {};
  const text = shownJson(JSON.stringify(value));
  return `${content(text)}${structured && isJsonObject(value) ? `,"structuredContent":${text}` : ''}`;
}

/**
 * The failure of an operation as the answer of its tool, so that an assistant reads it and can do better
 * (specification, "Errors"). No schema of answers is listed that it could break.
 */
export function toolFailure(error: GatewayError, { structured }: McpRevision): string {
  const text = shownJson(JSON.stringify(error.toBody()));
  return `${content(text)}${structured ? `,"structuredContent":${text}` : ''},"isError":true`;
}

function content(text: string): string {
  return `"content":[{"type":"text","text":${JSON.stringify(text)}}]`;
}
