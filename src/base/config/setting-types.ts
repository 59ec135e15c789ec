/*
 * The gateway's settings. settings.ts is the one table of what this version honours, later-settings.ts lists what it
 * refuses, config.ts reads both; beside it only environment.ts reads the environment, for what stored credentials name
 * there. No defaults are hidden elsewhere, and nothing here acts: it only turns text into values.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseDuration } from '../lib/clock.ts';
import { bracketHost, canonicalHost, type EgressAllow, HostPatterns, parseAuthority, parseEgressAllow } from '../lib/host.ts';
import { IpSet } from '../lib/ip.ts';
import { percentDecoded } from '../lib/text.ts';
import { readVerifyKeys, type VerifyKeys } from '../lib/verify-keys.ts';
import { isActionType } from '../model/action-request.ts';
import type { Authority } from '../model/arrival.ts';
import { NO_FOLDER } from './user-folder.ts';

/**
 * Turns the text of a variable into its value, or throws a RangeError; `allowed` finishes the sentence "it takes …".
 */
export interface SettingType<T> {
  readonly name: string;
  readonly allowed: string;
  /** Lists take an empty text as an empty list; for every other type it means "not set". */
  readonly list?: true;
  /** Values that are known and that nothing in this version enforces, with what they would mean. */
  readonly later?: Readonly<Record<string, string>>;
  parse(text: string): T;
}

/** curl's `--connect-to`: where to connect instead of `from`. */
export interface ConnectTo {
  readonly from: Authority;
  readonly to: Authority;
}

/** An HTTP proxy with what it is told about us. */
export interface ProxyAddress extends Authority {
  /** Value of Proxy-Authorization (RFC 7617); undefined without user and password. */
  readonly authorization: string | undefined;
}

/** Longest time that a timer can wait. */
const MAX_TIMER_MS = 2 ** 31 - 1;

function refuse(): never {
  throw new RangeError('not allowed');
}

export function parseBoolean(text: string): boolean {
  const word = text.toLowerCase();
  if (word === 'true' || word === '1') return true;
  return word === 'false' || word === '0' ? false : refuse();
}

export const boolean: SettingType<boolean> = { name: 'boolean', allowed: '`true` or `false`', parse: parseBoolean };

export function integer(min: number, max: number): SettingType<number> {
  return {
    name: 'integer',
    allowed: `a whole number from ${min} to ${max}`,
    parse(text) {
      const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
      return value >= min && value <= max ? value : refuse();
    },
  };
}

/** `PER_SECOND` or `PER_SECOND/BURST`; without a burst it is what comes in 20 seconds. */
export const recordRate: SettingType<{ readonly perSecond: number; readonly burst: number }> = {
  name: 'rate',
  allowed: '`PER_SECOND` or `PER_SECOND/BURST`, whole numbers from 0 to 1000000',
  parse(text) {
    const [rate = '', burst, ...more] = text.split('/');
    const whole = integer(0, 1_000_000);
    const perSecond = whole.parse(rate);
    return more.length > 0 ? refuse() : { perSecond, burst: burst === undefined ? perSecond * 20 : whole.parse(burst) };
  },
};

/** A plain decimal, not below `min` and not above `max`. */
export function decimal(min: number, max: number): SettingType<number> {
  return {
    name: 'number',
    allowed: `a number from ${min} to ${max}`,
    parse(text) {
      const value = /^\d{1,9}(?:\.\d{1,9})?$/.test(text) ? Number(text) : Number.NaN;
      return value >= min && value <= max ? value : refuse();
    },
  };
}

/** Any text; whoever uses it says what is wrong with it. */
export function freeText(name: string, allowed: string): SettingType<string> {
  return { name, allowed, parse: (text) => text };
}

/** Milliseconds. */
export function duration(min: string, max?: string): SettingType<number> {
  const least = parseDuration(min) ?? 0;
  const most = max === undefined ? MAX_TIMER_MS : (parseDuration(max) ?? MAX_TIMER_MS);
  return {
    name: 'duration',
    allowed: `a duration such as \`90s\`, \`1h30m\` or \`7d\`, from ${min} to ${max ?? '24d'}`,
    parse(text) {
      const ms = parseDuration(text);
      return ms !== undefined && ms >= least && ms <= most ? ms : refuse();
    },
  };
}

/** A duration that is kept as the text it was written in. */
export function durationText(min: string, max: string): SettingType<string> {
  const { name, allowed, parse } = duration(min, max);
  return {
    name,
    allowed,
    parse(text) {
      parse(text);
      return text;
    },
  };
}

/** `later` are values of the specification that are refused as not supported yet. */
export function choice<const T extends string>(values: readonly T[], later: Readonly<Record<string, string>> = {}): SettingType<T> {
  return {
    name: 'choice',
    allowed: values.map((value) => `\`${value}\``).join(', '),
    later,
    parse: (text) => values.find((value) => value === text) ?? refuse(),
  };
}

/**
 * An absolute path; relative ones count from the working directory. Whether anything is there is for its reader to say.
 */
function path(name: string): SettingType<string> {
  return { name, allowed: 'a path', parse: (text) => (text.includes('\0') ? refuse() : resolve(text)) };
}

export const folder = path('folder');
export const file = path('file');
export const folderOrFile = path('folder or file');

export const folderOrNone: SettingType<string> = {
  name: 'folder',
  allowed: 'a path, or `none`',
  parse: (text) => (text === NO_FOLDER ? text : folder.parse(text)),
};

/** The path of a PEM file that holds something of a kind. @param label of PEM @param what it is called */
function pemFile(label: string, what: string): SettingType<string> {
  return {
    name: 'file',
    allowed: `the path of a readable PEM file with at least one ${what}`,
    parse(text) {
      const path = resolve(text);
      return readFileSync(path, 'latin1').includes(`-----BEGIN ${label}-----`) ? path : refuse();
    },
  };
}

export const certificateFile = pemFile('CERTIFICATE', 'certificate');
export const publicKeyFile = pemFile('PUBLIC KEY', 'public key');

export const bindHost: SettingType<string> = {
  name: 'host',
  allowed: 'an IP address or a host name',
  parse: (text) => canonicalHost(text) ?? refuse(),
};

export const identifier: SettingType<string> = {
  name: 'id',
  allowed: '1 to 128 visible ASCII characters',
  parse: (text) => (/^[\x21-\x7e]{1,128}$/.test(text) ? text : refuse()),
};

/** Stands in a Via header, so it is a token (RFC 9110 §5.6.2) that is short. */
export const nodeName: SettingType<string> = {
  name: 'id',
  allowed: '1 to 64 letters, digits, `.`, `_` and `-`',
  parse: (text) => (/^[A-Za-z0-9._-]{1,64}$/.test(text) ? text : refuse()),
};

/** The scheme is checked here; the driver checks the rest when it opens the database. */
export const databaseUrl: SettingType<string> = {
  name: 'database',
  allowed: '`postgres://USER:PASSWORD@HOST:PORT/DATABASE`',
  parse: (text) => (/^postgres(ql)?:\/\/\S+$/i.test(text) ? text : refuse()),
};

/** Sent in a header field, so visible ASCII only. */
export const token: SettingType<string> = {
  name: 'secret',
  allowed: '1 to 512 visible ASCII characters without spaces',
  parse: (text) => (/^[\x21-\x7e]{1,512}$/.test(text) ? text : refuse()),
};

export const secretsKey: SettingType<Uint8Array> = {
  name: 'key',
  allowed: '32 bytes in base64, such as `openssl rand -base64 32` gives',
  parse(text) {
    const key = Buffer.from(text, 'base64');
    return key.length === 32 && /^[A-Za-z0-9+/_-]{43}=?$/.test(text) ? key : refuse();
  },
};

/** `always`, `off`, or the interval in milliseconds. */
export const fsyncMode: SettingType<'always' | 'off' | number> = {
  name: 'choice',
  allowed: '`always`, `off` or an interval from 10ms to 1h',
  parse: (text) => (text === 'always' || text === 'off' ? text : duration('10ms', '1h').parse(text)),
};

function items(text: string): string[] {
  return text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
}

export const ports: SettingType<ReadonlySet<number>> = {
  name: 'list of ports',
  allowed: 'comma-separated ports from 1 to 65535, at least one',
  list: true,
  parse(text) {
    const list = items(text).map((item) => integer(1, 65_535).parse(item));
    return list.length > 0 ? new Set(list) : refuse();
  },
};

export const ipRanges: SettingType<IpSet> = {
  name: 'list of CIDRs',
  allowed: 'comma-separated IP addresses and CIDR ranges such as `10.0.0.0/8`',
  list: true,
  parse: (text) => IpSet.parse(items(text)),
};

export const hostPatterns: SettingType<HostPatterns> = {
  name: 'list of hosts',
  allowed: 'comma-separated hosts; `*.example.com` is everything below example.com',
  list: true,
  parse: (text) => HostPatterns.parse(items(text)),
};

export const hostNames: SettingType<ReadonlySet<string>> = {
  name: 'list of hosts',
  allowed: 'comma-separated host names',
  list: true,
  parse: (text) => new Set(items(text).map((item) => canonicalHost(item) ?? refuse())),
};

export const names: SettingType<readonly string[]> = {
  name: 'names',
  allowed: 'comma-separated connector ids',
  parse: (text) => [...new Set(items(text))],
};

/** Names of connectors by `action.type`; whether anybody has these names is known when the catalogue is. */
export const actionTypes: SettingType<ReadonlyMap<string, string>> = {
  name: 'list of pairs',
  allowed: 'comma-separated `TYPE=CONNECTOR` such as `ai.embed=cohere`, each type once, in lower-case words joined by dots',
  list: true,
  parse(text) {
    const pairs = items(text).map(parseActionType);
    const map = new Map(pairs);
    const twice = pairs.find(([type], at) => pairs.findIndex(([other]) => other === type) !== at);
    if (twice !== undefined) throw new RangeError(`${twice[0]} stands there twice`);
    return map;
  },
};

function parseActionType(text: string): readonly [string, string] {
  const [type = '', connector = '', ...more] = text.split('=').map((part) => part.trim());
  if (connector === '' || more.length > 0) throw new RangeError(`${JSON.stringify(text)} is no TYPE=CONNECTOR`);
  if (!isActionType(type)) throw new RangeError(`${JSON.stringify(type)} is no action type`);
  return [type, connector];
}

export const verifyKeys: SettingType<VerifyKeys> = {
  name: 'public keys',
  allowed: 'one public Ed25519 key (PEM, or 32 bytes in base64 or hex), or comma-separated `kid=key`, each kid once',
  parse: readVerifyKeys,
};

export const origins: SettingType<ReadonlySet<string>> = {
  name: 'list of origins',
  allowed: 'comma-separated origins such as `https://app.example.com`, without a path',
  list: true,
  parse: (text) => new Set(items(text).map(parseOrigin)),
};

function parseOrigin(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : refuse();
  const bare =
    url.pathname === '/' && url.search === '' && url.hash === '' && url.username === '' && url.password === '' && !text.endsWith('/');
  return bare && (url.protocol === 'http:' || url.protocol === 'https:') ? url.origin : refuse();
}

/** An origin as browsers write it. */
export const publicUrl: SettingType<string> = {
  name: 'origin',
  allowed: '`https://HOST`, `https://HOST:PORT`, or the same with `http`, without user, path or query',
  parse: (text) =>
    /^https?:\/\/[^/?#@\\\s]+$/i.test(text) && canonicalHost(new URL(text).hostname) !== undefined ? parseOrigin(text) : refuse(),
};

/** Checked here, taken apart by the guard itself, which owns what an entry means. */
export const egressAllow: SettingType<EgressAllow> = {
  name: 'list of CIDRs and hosts',
  allowed: 'comma-separated IP addresses, CIDR ranges and hosts; `*.example.com` is everything below example.com',
  list: true,
  parse(text) {
    return parseEgressAllow(items(text));
  },
};

export const hostAndPort: SettingType<Authority> = {
  name: 'host and port',
  allowed: '`HOST:PORT`',
  parse: (text) => parseAuthority(text) ?? refuse(),
};

export const connectTo: SettingType<readonly ConnectTo[]> = {
  name: 'list of pairs',
  allowed: 'comma-separated `HOST:PORT=ADDRESS:PORT`, each HOST:PORT once',
  list: true,
  parse(text) {
    const pairs = items(text).map(parseConnectTo);
    const names = new Set(pairs.map(({ from }) => `${bracketHost(from.host)}:${from.port}`));
    return names.size === pairs.length ? pairs : refuse();
  },
};

function parseConnectTo(text: string): ConnectTo {
  const [left = '', right = '', ...more] = text.split('=');
  const from = parseAuthority(left);
  const to = parseAuthority(right);
  return from === undefined || to === undefined || more.length > 0 ? refuse() : { from, to };
}

const PROXY_URL = /^http:\/\/(?:([^@/?#]*)@)?([^@/?#]+)\/?$/i;

/** User and password are percent-encoded, as in every URL. */
export const proxyAddress: SettingType<ProxyAddress> = {
  name: 'proxy',
  allowed: '`http://HOST:PORT` or `http://USER:PASSWORD@HOST:PORT`',
  parse(text) {
    const [whole, userInfo, address = ''] = PROXY_URL.exec(text) ?? [];
    const authority = parseAuthority(address);
    if (whole === undefined || authority === undefined) return refuse();
    return { ...authority, authorization: userInfo === undefined ? undefined : basicCredentials(userInfo) };
  },
};

function basicCredentials(userInfo: string): string {
  const colon = userInfo.indexOf(':');
  const user = percentDecoded(colon === -1 ? userInfo : userInfo.slice(0, colon)) ?? refuse();
  const password = percentDecoded(colon === -1 ? '' : userInfo.slice(colon + 1)) ?? refuse();
  // RFC 7617 §2: a colon would end the user name, and neither has control characters.
  if (user.includes(':') || /[\u0000-\u001f\u007f]/.test(user + password)) refuse();
  return `Basic ${Buffer.from(`${user}:${password}`, 'utf8').toString('base64')}`;
}

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
