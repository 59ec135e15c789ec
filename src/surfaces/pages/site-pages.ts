import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { GatewayError } from '../../base/lib/gateway-error.ts';
import { packageRoot } from '../../base/lib/package-root.ts';
import { UNSEEN } from '../../base/lib/shown-text.ts';
import type { ArrivalHead } from '../../base/model/arrival.ts';
import { APPROVAL_PAGE, CHAT_USER_PAGE, FRONT_PAGE, PAGE_FILES } from '../../operations/served-elsewhere.ts';
import type { Route, RouteAnswer } from '../http/route.ts';
import { filesIn, hashedName, StaticFiles } from '../http/static-files.ts';

/**
 * Where the sources of the pages are; they are served as they are written, with the pattern of what is not seen in its
 * place.
 */
const FOLDER = ['src', 'surfaces', 'pages', 'site'];
const SCRIPTS = ['approval.js', 'chat-user.js'] as const;
/** Of the pattern, in each script. */
const PLACE = "'/* unseen */'";
const HTML = 'text/html; charset=utf-8';

/** The pages for people that a gateway has. */
export interface SitePages {
  /** On which a person decides about a request that waits (decision 11.4): one document for all approvals. */
  readonly approval: Route;
  /** On which a person says that an account in a chat is his (decision 11.6): the same document for all accounts. */
  readonly chatUser: Route;
  /** What a browser is shown at `/` of a port: where to go. */
  readonly front: { readonly proxy: Route; readonly management: Route };
  /** The style and the script of these pages. */
  readonly files: Route;
}

/** In the documents of the front: where the way to the console stands, on the port that has it. */
const CONSOLE_PLACE = '<!-- console -->\n';
const CONSOLE_LINK = '<p><a href="console/">Open the console</a>: what goes on, what waits for a person, and who spends what.</p>\n';

/**
 * Reads the pages. Their scripts and styles are files of this origin whose content the page names by its hash, and
 * nothing else runs there.
 * @param consoleAt the port that has the console; undefined: it is switched off
 * @throws Error when the files of the pages are not there
 */
export function sitePages(consoleAt: 'proxy' | 'management' | undefined): SitePages {
  const sources = filesIn(join(packageRoot(), ...FOLDER));
  const style = sourceOf(sources, 'page.css');
  const scripts = SCRIPTS.map((name) => [name, scriptOf(sources, name)] as const);
  const links = { 'page.css': style, ...Object.fromEntries(scripts) };
  const pageOf = (name: string): RouteAnswer => pageAnswer(sourceOf(sources, name).toString(), links);
  const frontOf = (name: string, hasConsole: boolean): Route => {
    const page = pageAnswer(
      sourceOf(sources, name)
        .toString()
        .replace(CONSOLE_PLACE, hasConsole ? CONSOLE_LINK : ''),
      links,
    );
    return {
      ...routeFacts(FRONT_PAGE),
      ...{ page: true, yields: true, anyPort: true, query: 'unread' },
      handle: ({ head }) => frontAnswer(head, page),
    };
  };
  const [approval, chatUser] = [pageOf('approval.html'), pageOf('chat-user.html')];
  const files = new StaticFiles(new Map(Object.entries(links).map(([name, bytes]) => [hashedName(name, bytes), bytes])));
  return {
    // Chats and mail programs add parameters of their own to the links that they show.
    approval: { ...routeFacts(APPROVAL_PAGE), page: true, query: 'unread', handle: () => approval },
    chatUser: { ...routeFacts(CHAT_USER_PAGE), page: true, query: 'unread', handle: () => chatUser },
    front: {
      proxy: frontOf('front.html', consoleAt === 'proxy'),
      management: frontOf('front-management.html', consoleAt === 'management'),
    },
    files: {
      ...routeFacts(PAGE_FILES),
      ...{ path: '/assets/{*file}', yields: true, anyPort: true, query: 'unread' },
      handle: (request) => files.answer(request.params['file'] ?? '', request),
    },
  };
}

/**
 * A browser is shown the page; a program that asks here has a base URL without its prefix, and is told so.
 * @throws GatewayError `not_found`
 */
function frontAnswer({ headers }: ArrivalHead, page: RouteAnswer): RouteAnswer {
  if (/\btext\/html\b/i.test(headers['accept'] ?? '')) return page;
  throw new GatewayError('not_found', 'There is nothing at /. Base URLs begin with /proxy/{provider}, such as /proxy/openai/v1.');
}

function routeFacts({ method, path, scope: auth, summary }: typeof FRONT_PAGE): Pick<Route, 'method' | 'path' | 'auth' | 'summary'> {
  return { method, path, auth, summary };
}

/** A document in which the names of files stand with their hashes. */
function pageAnswer(source: string, links: Readonly<Record<string, Uint8Array>>): RouteAnswer {
  let text = source;
  for (const [name, bytes] of Object.entries(links))
    text = text.replace(`"${name}"`, `"/assets/${hashedName(name, bytes)}" integrity="sha256-${digestOf(bytes)}"`);
  return { status: 200, bytes: Buffer.from(text), contentType: HTML, headers: headersOf(scriptsIn(text)) };
}

/** Hashes of the scripts that a document loads. */
function scriptsIn(text: string): readonly string[] {
  return [...text.matchAll(/<script [^>]*integrity="([^"]+)"/g)].map(([, hash = '']) => `'${hash}'`);
}

/** @param scripts the only ones that run, whatever else this origin serves */
function headersOf(scripts: readonly string[]): readonly string[] {
  const policy = [
    "default-src 'none'",
    ...(scripts.length === 0 ? [] : [`script-src ${scripts.join(' ')}`, "connect-src 'self'"]),
    "style-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
  return [
    'Content-Security-Policy',
    policy,
    'X-Frame-Options',
    'DENY',
    'Referrer-Policy',
    'no-referrer',
    // Who opened it cannot lead it elsewhere once a key was typed.
    'Cross-Origin-Opener-Policy',
    'same-origin',
    'Vary',
    'Accept',
  ];
}

function digestOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('base64');
}

/** A script with the pattern of what is not seen. */
function scriptOf(sources: ReadonlyMap<string, Uint8Array>, name: string): Uint8Array {
  const written = sourceOf(sources, name).toString();
  // A page that hides nothing of what it is given would still look like one.
  if (!written.includes(PLACE)) throw new Error(`${name} has no place for the pattern of what is not seen`);
  return Buffer.from(written.replace(PLACE, () => JSON.stringify(UNSEEN)));
}

function sourceOf(sources: ReadonlyMap<string, Uint8Array>, name: string): Buffer {
  const bytes = sources.get(name);
  if (bytes === undefined) throw new Error(`the page file ${name} is not there`);
  return Buffer.from(bytes);
}
