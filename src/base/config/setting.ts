import type { SettingType } from './setting-types.ts';

/** One environment variable that this version honours. */
export interface Setting<T> {
  readonly variable: string;
  readonly type: SettingType<T>;
  /** Text that is read when the variable is not set; undefined: the member is undefined then. */
  readonly fallback: string | undefined;
  /** What the reference page prints as default where there is no fixed text. */
  readonly fallbackNote?: string;
  /** One line. */
  readonly help: string;
  /** Its value is never printed, and `<variable>_FILE` may name a file that holds it. */
  readonly secret: boolean;
}

/** Has a value always: that of its `fallback` where nobody sets it. */
export function required<T>(variable: string, of: SettingType<T>, fallback: string, help: string, fallbackNote?: string): Setting<T> {
  return { variable, type: of, fallback, help, secret: false, ...(fallbackNote === undefined ? {} : { fallbackNote }) };
}

/** Undefined where nobody sets it. */
export function optional<T>(variable: string, of: SettingType<T>, help: string, fallbackNote = 'unset'): Setting<T | undefined> {
  return { variable, type: of, fallback: undefined, help, secret: false, fallbackNote };
}

/** As {@link optional}; see {@link Setting.secret}. */
export function secret<T>(variable: string, of: SettingType<T>, help: string, fallbackNote?: string): Setting<T | undefined> {
  return { ...optional(variable, of, help, fallbackNote), secret: true };
}
