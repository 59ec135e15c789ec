import type { Environment } from '../../base/config/settings-reader.ts';
import type { CliIo } from '../command.ts';
import type { GatewayAddress } from '../gateway-address.ts';
import type { GatewaySettings } from '../settings-of.ts';
import type { Health } from './ask-health.ts';

/** `skipped`: it could not be looked at, and that is no fault. Only `wrong` makes the exit code 1. */
export type FindingLevel = 'ok' | 'skipped' | 'warning' | 'wrong';

/** What one look has found. */
export interface Finding {
  /** Of the check, or of the runtime. */
  readonly id: string;
  readonly level: FindingLevel;
  /** One line for a person. */
  readonly found: string;
  /** What to do about it. */
  readonly remedy?: string;
}

/** What checks look at. */
export interface Patient {
  readonly io: CliIo;
  readonly env: Environment;
  /** Undefined when the settings are not valid. */
  readonly config: GatewaySettings | undefined;
  /** Of each setting that is not valid, and of each variable that is none. */
  readonly mistakes: readonly string[];
  readonly warnings: readonly string[];
  /** Where the gateway should be; undefined when nothing says it. */
  readonly url: GatewayAddress | undefined;
  /** Whether `--url` was given: then folders of this machine may be another gateway's. */
  readonly elsewhere: boolean;
  readonly health: Health;
  /** What `--for` names; empty: what is there. */
  readonly runtimes: readonly string[];
  /** Also what needs the network. */
  readonly online: boolean;
}

/** One thing that is looked at; the table of the guide is checked against these rows. */
export interface DoctorCheck {
  readonly id: string;
  /** What it looks at, for the guide. */
  readonly looksAt: string;
  look(patient: Patient): readonly Finding[] | Promise<readonly Finding[]>;
}

export const ok = (id: string, found: string): Finding => ({ id, level: 'ok', found });
export const skipped = (id: string, found: string): Finding => ({ id, level: 'skipped', found });
export const warning = (id: string, found: string, remedy: string): Finding => ({ id, level: 'warning', found, remedy });
export const wrong = (id: string, found: string, remedy: string): Finding => ({ id, level: 'wrong', found, remedy });
