import type { Dialect, StreamRule } from '../../base/catalogue/types.ts';
import { awsErrorFrame } from './aws-error-frame.ts';
import { type ProviderErrorText, refusalBody } from './provider-error.ts';

type Members = Readonly<Record<string, unknown>>;

/**
 * The last event of a stream that is ended in place of its provider, in the form in which this format tells an error, so that the provider's own SDK takes
 * it for one. Each piece is written by itself.
 * @param more members beside those that the format knows
 */
export function streamError(
  dialect: Dialect,
  framing: StreamRule['framing'],
  text: ProviderErrorText,
  more: Members,
): readonly Uint8Array[] {
  const rule = dialect.streamError;
  const data = rule ? (filled(rule.data, text) as Members) : {};
  const json = JSON.stringify({ ...refusalBody(dialect.errorShape, text), ...data, ...more });
  const event = framedError(framing, { name: rule?.event, json, code: text.type, message: text.message });
  return rule?.alsoBare && framing === 'sse' ? [event, Buffer.from(`${json}\n`)] : [event];
}

/** One error as the last element of a stream of this framing. `json` holds no line end. */
export function framedError(
  framing: StreamRule['framing'],
  { name, json, code, message }: { name: string | undefined; json: string; code: string; message: string },
): Uint8Array {
  if (framing === 'aws_event_stream') return awsErrorFrame(code, message, json);
  if (framing === 'ndjson') return Buffer.from(`${json}\n`);
  if (framing === 'json_array') return Buffer.from(`,\n${json}\n]\n`);
  return Buffer.from(`${name === undefined ? '' : `event: ${name}\n`}data: ${json}\n\n`);
}

function filled(value: unknown, text: ProviderErrorText): unknown {
  if (value === '{message}') return text.message;
  if (value === '{code}') return text.type;
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, filled(member, text)]));
}
