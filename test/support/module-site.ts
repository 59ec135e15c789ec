/*
 * A site whose pages load packages of node_modules as a browser loads modules: names of packages become paths, as a
 * bundler would make them.
 */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { startPlainUpstream } from './tls-upstream.ts';

const CONDITIONS = ['browser', 'import', 'module', 'default'];
const BARE = /(\bfrom\s*|\bimport\s*\(?\s*)(["'])(?!node:)([\w@][^"'\s]*)\2/g;
const PAGE = '<!doctype html><title>A page</title>';

interface Site {
  readonly port: number;
  close(): Promise<void>;
}

/** Every path below `/modules/` is one of node_modules, all others are an empty page. */
export async function startModuleSite(): Promise<Site> {
  return await startPlainUpstream((request, response) => {
    const path = normalize((request.url ?? '/').replace(/[?#].*$/, ''));
    if (!path.startsWith('/modules/')) return void response.writeHead(200, { 'Content-Type': 'text/html' }).end(PAGE);
    const file = join(packageRoot(), 'node_modules', path.slice('/modules/'.length));
    if (!existsSync(file)) return void response.writeHead(404).end();
    const code = readFileSync(file, 'utf8').replace(BARE, (whole: string, before: string, quote: string, name: string) => {
      const found = resolveFrom(dirname(file), name);
      return found === undefined ? whole : `${before}${quote}${found}${quote}`;
    });
    response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(code);
  });
}

/** Where a page of the site finds a package, or a part of one. @throws Error when it is not installed */
export function moduleUrl(name: string): string {
  const found = resolveFrom(packageRoot(), name);
  if (found === undefined) throw new Error(`${name} is not installed`);
  return found;
}

function resolveFrom(folder: string, name: string): string | undefined {
  const parts = name.split('/');
  const own = parts.slice(0, name.startsWith('@') ? 2 : 1).join('/');
  for (let at = folder; at.startsWith(packageRoot()); at = dirname(at)) {
    const place = join(at, 'node_modules', own);
    if (existsSync(join(place, 'package.json'))) return pathIn(place, name.slice(own.length));
  }
  return undefined;
}

function pathIn(place: string, below: string): string | undefined {
  const manifest = JSON.parse(readFileSync(join(place, 'package.json'), 'utf8')) as Readonly<Record<string, unknown>>;
  const exported = manifest['exports'];
  const entry = isMap(exported) ? (exported[`.${below}`] ?? (below === '' ? exported : undefined)) : exported;
  const target = exported === undefined ? below.slice(1) || (manifest['module'] ?? manifest['main']) : targetOf(entry);
  return typeof target === 'string' ? `/modules/${relative(join(packageRoot(), 'node_modules'), join(place, target))}` : undefined;
}

function targetOf(entry: unknown): string | undefined {
  if (typeof entry === 'string') return entry;
  if (!isMap(entry)) return undefined;
  for (const condition of CONDITIONS) {
    const found = targetOf(entry[condition]);
    if (found !== undefined) return found;
  }
  return undefined;
}

function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
