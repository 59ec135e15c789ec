import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../base/lib/package-root.ts';
import { CONSOLE_DOOR, CONSOLE_FILES, CONSOLE_PAGE, CONSOLE_START } from '../../operations/served-elsewhere.ts';
import type { Route, RouteAnswer, RouteRequest } from '../http/route.ts';
import { filesIn, StaticFiles } from '../http/static-files.ts';

/** Where `scripts/console.mjs` has built it; it is served as it lies there. */
const FOLDER = ['build', 'console'];
const PAGE = 'index.html';

/**
 * Nothing but the files of this origin, and no text that becomes code: what a model or a stranger has written stays
 * text, whatever a page does with it (decision 10.20).
 */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

const HEADERS: readonly string[] = [
  ...['Content-Security-Policy', POLICY],
  ...['X-Frame-Options', 'DENY'],
  ...['Referrer-Policy', 'no-referrer'],
  ...['Cross-Origin-Opener-Policy', 'same-origin'],
  ...['Cross-Origin-Resource-Policy', 'same-origin'],
];

/**
 * The console: one document for all of its pages, whose segment of the path its script reads, and its files. They hold
 * no datum; everything that is shown is asked for with a session.
 * @throws Error when it was not built
 */
export function consolePages(): readonly Route[] {
  const folder = join(packageRoot(), ...FOLDER);
  if (!existsSync(join(folder, PAGE))) throw new Error('the console is not built (npm run build)');
  const files = new StaticFiles(filesIn(folder));
  const page = (request: RouteRequest): RouteAnswer => {
    const answer = files.answer(PAGE, request);
    return { ...answer, headers: [...(answer.headers ?? []), ...HEADERS] };
  };
  return [
    // Names of files are relative, so that it works below a path of a proxy: that needs the slash.
    { ...facts(CONSOLE_DOOR), page: true, query: 'unread', handle: () => ({ status: 302, redirect: 'console/' }) },
    { ...facts(CONSOLE_START), page: true, query: 'unread', handle: page },
    { ...facts(CONSOLE_PAGE), page: true, query: 'unread', handle: page },
    {
      ...facts(CONSOLE_FILES),
      ...{ page: true, query: 'unread' },
      handle: (request) => files.answer(`assets/${request.params['file'] ?? ''}`, request),
    },
  ];
}

function facts({ method, path, scope: auth, summary }: typeof CONSOLE_PAGE): Pick<Route, 'method' | 'path' | 'auth' | 'summary'> {
  return { method, path, auth, summary };
}
