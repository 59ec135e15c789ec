import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../base/lib/package-root.ts';
import { UNSEEN } from '../../base/lib/shown-text.ts';
import { APPROVAL_PAGE } from '../../operations/served-elsewhere.ts';
import type { Route } from '../http/route.ts';

/** Where the sources of the page are; they are served as they are written, with the pattern of what is not seen in its place. */
const FOLDER = ['src', 'surfaces', 'pages', 'approval'];

/** Of the pattern. */
const PLACE = "'/* unseen */'";

/**
 * The page on which a person decides about a request that waits (decision 11.4): one document for all approvals. Its own script and style run there, known by their
 * hashes, and nothing else does.
 * @throws Error when the files of the page are not there
 */
export function approvalPage(): Route {
  const [frame, style, written] = ['page.html', 'page.css', 'page.js'].map(read) as [string, string, string];
  // A page that hides nothing of what it is given would still look like one.
  if (!written.includes(PLACE)) throw new Error('page.js has no place for the pattern of what is not seen');
  const script = written.replace(PLACE, () => JSON.stringify(UNSEEN));
  const bytes = Buffer.from(frame.replace('/* style */', () => style).replace('/* script */', () => script));
  const answer = { status: 200, bytes, contentType: 'text/html; charset=utf-8', headers: headersOf(script, style) };
  const { method, path, scope: auth, summary } = APPROVAL_PAGE;
  // Chats and mail programs add parameters of their own to the links that they show.
  return { method, path, auth, summary, page: true, query: 'unread', handle: () => answer };
}

function headersOf(script: string, style: string): readonly string[] {
  const policy = [
    "default-src 'none'",
    `script-src '${hashOf(script)}'`,
    `style-src '${hashOf(style)}'`,
    "connect-src 'self'",
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
  ];
}

function hashOf(text: string): string {
  return `sha256-${createHash('sha256').update(text).digest('base64')}`;
}

function read(file: string): string {
  return readFileSync(join(packageRoot(), ...FOLDER, file), 'utf8');
}
