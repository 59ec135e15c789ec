import { readdirSync, readFileSync } from 'node:fs';
import { extname, join, relative, sep } from 'node:path';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import type { RouteAnswer, RouteRequest } from './route.ts';

const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.ico': 'image/x-icon',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json',
  '.mjs': 'text/javascript; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
  '.webmanifest': 'application/manifest+json',
  '.woff2': 'font/woff2',
};
/** Endings of the compressed forms that may lie beside a file, the smaller form first. */
const ENCODINGS = { '.br': 'br', '.gz': 'gzip' } as const;
/**
 * A name with a hash of what is inside, as build tools write it: 8 hexadecimal digits or more, or 8 of base32 or
 * base36.
 */
const HASHED = /[.-](?:[0-9a-f]{8,}|[0-9A-Z]{8})\.\w+$/;
const FOR_EVER = 'public, max-age=31536000, immutable';

/** One form of a file: as it is, or compressed. */
interface Form {
  readonly bytes: Uint8Array;
  /** `Content-Encoding`; undefined: as it is. */
  readonly encoding: string | undefined;
  readonly etag: string;
}

interface StaticFile {
  readonly contentType: string;
  readonly cache: string;
  /** In the order in which they are offered; the last one is the file as it is. */
  readonly forms: readonly Form[];
}

/**
 * Files that a surface gives out as they are, read once: a request names one of a list, and cannot lead to any other
 * file. They hold no data of anybody. Compressed forms are files beside them (`app.js.br`, `app.js.gz`).
 */
export class StaticFiles {
  readonly #files = new Map<string, StaticFile>();

  /**
   * @param given bytes by name, with `/` between folders
   * @throws TypeError for an ending whose content type is not known
   */
  constructor(given: ReadonlyMap<string, Uint8Array>) {
    for (const [name, bytes] of given) {
      if (isCompressed(name)) continue;
      const contentType = TYPES[extname(name)];
      if (contentType === undefined) throw new TypeError(`nobody has said which content type ${extname(name)} is`);
      const compressed = Object.entries(ENCODINGS).flatMap(([ending, encoding]) => {
        const packed = given.get(name + ending);
        return packed === undefined ? [] : [formOf(packed, encoding)];
      });
      const cache = HASHED.test(name) ? FOR_EVER : 'no-cache';
      this.#files.set(name, { contentType, cache, forms: [...compressed, formOf(bytes, undefined)] });
    }
  }

  /** Answers for the file of this name. @throws GatewayError `not_found` */
  answer(name: string, { head: { headers } }: Pick<RouteRequest, 'head'>): RouteAnswer {
    const file = this.#files.get(name);
    if (file === undefined) throw new GatewayError('not_found', 'There is no such file.');
    const accepted = acceptedIn(headers['accept-encoding']);
    const form = file.forms.find(({ encoding }) => encoding === undefined || accepted.has(encoding));
    if (form === undefined) throw new TypeError('a file has no form that is not compressed');
    const { bytes, encoding, etag } = form;
    const fields = ['ETag', etag, ...(file.forms.length > 1 ? ['Vary', 'Accept-Encoding'] : [])];
    if (namesTag(headers['if-none-match'], etag)) return { status: 304, headers: fields, cache: file.cache };
    if (encoding !== undefined) fields.push('Content-Encoding', encoding);
    return { status: 200, bytes, contentType: file.contentType, headers: fields, cache: file.cache };
  }
}

/**
 * Files below a folder by name; what is hidden, and links, are passed over.
 * @throws Error when the folder cannot be read
 */
export function filesIn(folder: string): ReadonlyMap<string, Uint8Array> {
  const files = new Map<string, Uint8Array>();
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    const name = relative(folder, path).split(sep);
    if (entry.isFile() && !name.some((part) => part.startsWith('.'))) files.set(name.join('/'), readFileSync(path));
  }
  return files;
}

/** A name with a hash of the bytes: `page-0123456789abcdef.css`, which another content never has. */
export function hashedName(name: string, bytes: Uint8Array): string {
  const ending = extname(name);
  return `${name.slice(0, -ending.length)}-${sha256Hex(bytes).slice(0, 16)}${ending}`;
}

function formOf(bytes: Uint8Array, encoding: string | undefined): Form {
  return { bytes, encoding, etag: `"${sha256Hex(bytes).slice(0, 32)}"` };
}

function isCompressed(name: string): boolean {
  return Object.keys(ENCODINGS).some((ending) => name.endsWith(ending));
}

/** Encodings that a client takes (RFC 9110 §12.5.3); one with `q=0` it does not. */
function acceptedIn(field = ''): ReadonlySet<string> {
  const accepted = new Set<string>();
  for (const part of field.toLowerCase().split(',')) {
    const [name = '', ...parameters] = part.split(';').map((text) => text.trim());
    if (!parameters.some((text) => /^q=0(?:\.0*)?$/.test(text))) accepted.add(name);
  }
  return accepted;
}

/** Whether `If-None-Match` names this tag, weakly compared (RFC 9110 §13.1.2). */
function namesTag(field: string | undefined, etag: string): boolean {
  if (field === undefined) return false;
  return field.trim() === '*' || field.split(',').some((tag) => tag.trim().replace(/^W\//, '') === etag);
}
