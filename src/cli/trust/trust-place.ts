import { createHash } from 'node:crypto';
import type { Environment } from '../../base/config/settings-reader.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import { type Ran, runProgram } from './run-program.ts';

export const STORES = ['system', 'nss', 'java'] as const;
export type StoreName = (typeof STORES)[number];

/** What all our entries are called, or begin with; also those that people have made by the guide's commands. */
export const NAME = 'ai-request-gateway';

/** The machine that is looked at. */
export interface Machine {
  readonly env: Environment;
  readonly platform: string;
  readonly home: string;
  /** In front of the paths of the system: an image that is being made; empty: this system. */
  readonly root: string;
}

/** A root that is in a store. */
export interface Entry {
  /** What the store calls it: a path, a nickname, an alias. */
  readonly name: string;
  readonly der: Buffer;
}

/** One thing that is done, as data, so that it can be shown in place of being done. */
export type Step =
  /** Writes the root to a path. */
  | { readonly write: string }
  | { readonly remove: string }
  /** A program and its arguments; {@link ROOT_FILE} stands for the root as a file. */
  | { readonly run: readonly string[] };

/** Stands in a command where the path of the root belongs. */
export const ROOT_FILE = '{root}';

/** One place in which programs look for roots. */
export interface TrustPlace {
  readonly store: StoreName;
  /** A path, for people. */
  readonly where: string;
  /** Which programs look there. */
  readonly covers: string;
  /** Why nothing can be done there though it is there, and what to do; undefined: it can. */
  readonly lacks: string | undefined;
  /** What has to be writable; another user's is left to who may. */
  readonly guard: string;
  /** Ours, or somebody's that are called like ours. */
  entries(): Promise<readonly Entry[]>;
  /** Whether programs that look there take the root. */
  trusts(root: Buffer): Promise<boolean>;
  add(name: string): readonly Step[];
  remove(entry: Entry): readonly Step[];
}

export function fingerprint(der: Uint8Array): string {
  return sha256Hex(der);
}

/** What some stores know certificates by; no proof of anything. */
export function sha1Hex(der: Uint8Array): string {
  return createHash('sha1').update(der).digest('hex');
}

/** What a root is called in a store. */
export function entryName(der: Uint8Array): string {
  return `${NAME}-${fingerprint(der).slice(0, 16)}`;
}

export function derOf(pem: string): Buffer {
  return Buffer.from(pem.replace(/-----[^-]+-----|\s+/g, ''), 'base64');
}

export function runOn(machine: Machine, command: string, args: readonly string[]): Promise<Ran> {
  return runProgram(command, args, { env: { ...machine.env } });
}
