import { isJsonObject } from '../../base/json/json-object.ts';
import { parseSafeJsonText } from '../../base/json/safe-json.ts';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { parseYaml, toPlain } from '../../base/lib/yaml.ts';
import type { CliIo } from '../command.ts';
import { asUtf8, readUtf8, UnreadablePath, unreadable } from './policy-target.ts';

const MAX_INPUT = 16 * 1024 * 1024;

export interface Document {
  /** As a person named it. */
  readonly name: string;
  readonly text: string;
}

/** A file, or standard input for `-`. @throws UnreadablePath */
export async function readDocument(path: string, io: CliIo): Promise<Document> {
  if (path !== '-') return { name: path, text: await readUtf8(path).catch((error: unknown) => Promise.reject(unreadable(path, error))) };
  try {
    return { name: 'standard input', text: asUtf8(await io.stdin(MAX_INPUT)) };
  } catch (error) {
    throw unreadable('standard input', error);
  }
}

/** The map that a YAML or JSON text holds. @throws UnreadablePath with the place of the first mistake */
export function parseMap({ name, text }: Document): Readonly<Record<string, unknown>> {
  const { root, errors } = parseYaml(text, name);
  const [first] = errors;
  if (first !== undefined) throw new UnreadablePath(`${name}:${first.line}:${first.column}: ${first.message}`);
  return asMap(toPlain(root), name);
}

/** @throws UnreadablePath */
export function parseJsonMap({ name, text }: Document): Readonly<Record<string, unknown>> {
  try {
    return asMap(parseSafeJsonText(text, { malformed: 'invalid_request' }).value, name);
  } catch (error) {
    if (error instanceof GatewayError) throw new UnreadablePath(`${name}: ${error.message}`, { cause: error });
    throw error;
  }
}

function asMap(value: unknown, name: string): Readonly<Record<string, unknown>> {
  if (isJsonObject(value)) return value;
  throw new UnreadablePath(`${name}: this is not a map`);
}
