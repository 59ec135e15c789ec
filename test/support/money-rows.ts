import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import type { Usage } from '../../src/base/model/usage.ts';
import { awsChunk, awsEvent } from './aws-events.ts';

/** A recorded answer with what it costs; what each member means stands in test/cases/money/README.md. */
export interface MoneyRow {
  /** Of the table. */
  readonly file: string;
  readonly name: string;
  readonly provider: string;
  readonly call?: string;
  readonly stream_call?: string;
  readonly dialect?: string;
  readonly host?: string;
  readonly asks?: Readonly<Record<string, unknown>>;
  readonly model?: string;
  readonly at?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly answer?: unknown;
  readonly type?: string;
  readonly stream?: string;
  readonly events?: readonly Readonly<Record<string, unknown>>[];
  readonly socket?: boolean;
  readonly outcome?: 'complete' | 'open' | 'error';
  readonly counts: Usage | null;
  readonly answered?: string;
  readonly by_hand: string;
  readonly by_hand_plain?: string;
  readonly rates: string | readonly string[];
  readonly shows?: Readonly<Record<string, string>>;
  readonly source?: 'catalogue' | 'default';
  readonly unpriced?: readonly string[];
  readonly judge?: string;
  readonly judged_in?: string;
  readonly differs?: Readonly<Record<string, number | null>>;
  readonly because?: string;
  readonly door?: 'both' | 'proxied';
}

const folder = join(packageRoot(), 'test', 'cases', 'money');

/** All rows of the table, each with the file that it stands in. */
export function moneyRows(): readonly MoneyRow[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.yaml'))
    .sort()
    .flatMap((file) => (parse(readFileSync(join(folder, file), 'utf8')) as Omit<MoneyRow, 'file'>[]).map((row) => ({ ...row, file })));
}

/** Of `POST /v1/messages?x=y`. */
export function methodAndPath(call: string): readonly [method: string, path: string] {
  const space = call.indexOf(' ');
  return [call.slice(0, space), call.slice(space + 1)];
}

/** The model that a row asks for, as it stands where the provider reads it. */
export function askedFor({ model, asks }: MoneyRow): string | undefined {
  const named = model ?? asks?.['model'];
  return typeof named === 'string' ? named : undefined;
}

/** Epoch milliseconds at which the call of a row came. */
export function cameAt({ at = '2026-11-26T12:00:00.000Z' }: Pick<MoneyRow, 'at'>): number {
  return Date.parse(at);
}

/** Content type and bytes of the answer that is no stream; undefined where the row has none. */
export function wholeAnswer({ answer }: MoneyRow): { readonly type: string; readonly bytes: Buffer } | undefined {
  if (answer === undefined) return undefined;
  if (typeof answer === 'string') return { type: 'audio/mpeg', bytes: Buffer.from(answer, 'latin1') };
  return { type: 'application/json', bytes: Buffer.from(JSON.stringify(answer)) };
}

/** The same of the answer as a stream. */
export function streamedAnswer({ stream, events, type }: MoneyRow): { readonly type: string; readonly bytes: Buffer } | undefined {
  if (events !== undefined) return { type: 'application/vnd.amazon.eventstream', bytes: Buffer.concat(events.flatMap(frames)) };
  if (stream === undefined) return undefined;
  const end = type === undefined ? '\n\n' : '\n';
  return { type: type ?? 'text/event-stream', bytes: Buffer.from(stream.trimEnd() + end) };
}

function frames(event: Readonly<Record<string, unknown>>): readonly Buffer[] {
  return Object.entries(event).map(([name, value]) => (name === 'chunk' ? awsChunk(value) : awsEvent(name, value)));
}
