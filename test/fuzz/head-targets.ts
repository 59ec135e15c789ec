import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { loadCatalogue } from '../../src/base/catalogue/catalogue.ts';
import { HTTP_REQUEST } from '../../src/base/catalogue/operations.ts';
import { parseBasic } from '../../src/base/lib/basic-credentials.ts';
import { GatewayError } from '../../src/base/lib/gateway-error.ts';
import { canonicalHost, formatAuthority, parseAuthority } from '../../src/base/lib/host.ts';
import { IpSet, parseIp } from '../../src/base/lib/ip.ts';
import { ClientHelloReader } from '../../src/inbound/listener/client-hello.ts';
import { readConnect } from '../../src/inbound/listener/connect-request.ts';
import { framingOf } from '../../src/inbound/listener/framing.ts';
import { Link } from '../../src/inbound/listener/links.ts';
import { classifyOrigin, guardOrigin } from '../../src/inbound/normalise/door.ts';
import { callerIp, readIdentity } from '../../src/inbound/normalise/identity.ts';
import { canonicalPath, pathOnly, queryNames, queryOf, recordedPath } from '../../src/inbound/normalise/path.ts';
import { fillPlaces } from '../../src/inbound/normalise/places.ts';
import { resolveTarget } from '../../src/inbound/normalise/target.ts';
import { filterRequestHeaders, filterResponseHeaders, seenVia } from '../../src/outbound/net/header-filter.ts';
import { head } from '../inbound/normalise/heads.ts';
import { decodeRawHeaders } from '../support/raw-headers.ts';
import { type FuzzTarget, fieldsOf, joinedFields, must, outcomeOf, piecesOf } from './target.ts';

const MILLION = 1_000_000;
const catalogue = loadCatalogue();
const link = new Link(new Socket(), 'developer');
const message = new IncomingMessage(link.socket);

const HEADER_TOKENS = [
  '\r\n',
  '\n',
  ': ',
  ', ',
  'Host: ',
  'Content-Length: ',
  'Transfer-Encoding: ',
  'chunked',
  'Connection: ',
  'close, x-a',
  'Keep-Alive: ',
  'Upgrade: ',
  'Te: trailers',
  'Trailer: ',
  'Proxy-Authorization: ',
  'Basic ',
  'YTpi',
  '====',
  'Bearer gwt_x',
  'X-GW-Workload-ID: ',
  'Via: 1.1 gw-a',
  'Forwarded: for=',
  'X-Forwarded-For: ',
  '[::1]:80',
  '::ffff:1.2.3.4',
  'Origin: http://',
  'Cookie: a=b; c=d',
];
const HOST_TOKENS = [
  'api.openai.com',
  ':443',
  'xn--',
  '[::1]',
  '[::ffff:7f00:1]',
  '127.0.0.1',
  '0x7f.1',
  '2130706433',
  '%2e',
  '\u00ad',
  '.',
  '..',
  '@',
  '#',
  '?',
  '\\',
  '%00',
  '\u3002',
];
const PATH_TOKENS = [
  '/',
  '//',
  '/..',
  '/.',
  '%2e%2e',
  '%2F',
  '%5c',
  '\\',
  ';x',
  '..;/',
  '%00',
  '%25',
  '%',
  '?',
  '#',
  '&alt=sse',
  'model=',
  '=',
  '+',
  ':streamGenerateContent',
  '/v1beta/models/',
  '/openai/deployments/',
  '/chat/completions',
  '/proxy/openai',
  '/proxy/',
  'http://',
  'https://api.openai.com',
];

/** A CONNECT line and the fields behind it, and the bare authority. */
const connect: FuzzTarget = {
  name: 'connect',
  inputs: MILLION,
  headLines: 0,
  dictionary: [...HOST_TOKENS, ...HEADER_TOKENS],
  run(input) {
    const [target = '', ...lines] = input.toString('latin1').split('\n');
    const fields = fieldsOf(lines);
    const headers = joinedFields(fields);
    Object.assign(message, { httpVersion: '1.1', url: target, rawHeaders: fields, headers });
    sameAuthority(input.toString('utf8', 0, 300));
    const read = readConnect(message, link);
    if (read instanceof GatewayError) {
      must(read.code === 'invalid_target' || read.code === 'bad_framing', `a CONNECT is not refused by ${read.code}`);
      return read.code;
    }
    const { authority, proxyUser, proxyPassword } = read;
    must(authority.port >= 1 && authority.port <= 65_535, 'a port is a port');
    must(!/[^a-z0-9._:-]/.test(authority.host), 'a canonical host holds plain characters only');
    if (proxyUser !== undefined) must(!proxyUser.includes(':'), 'a user name holds no colon');
    const basic = parseBasic(headers['proxy-authorization']);
    must(basic?.user === proxyUser && basic?.password === proxyPassword, 'credentials read the same at both doors');
    return `accepted ${basic !== undefined} ${authority.host.includes(':')}`;
  },
};

/** One form, which folds to itself, and which the platform's URL parser agrees with. */
function sameAuthority(text: string): void {
  for (const candidate of [text, text.split('\n', 1)[0] ?? '']) {
    const host = canonicalHost(candidate);
    if (host !== undefined) {
      must(canonicalHost(host) === host, 'a canonical host folds to itself');
      const bracketed = candidate.includes(':') ? `[${candidate.replace(/^\[|\]$/g, '')}]` : candidate;
      const judged = new URL(`http://${bracketed}/`).hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
      must(judged === host, 'a canonical host is the one of the URL standard');
    }
    const authority = parseAuthority(candidate, 443);
    if (authority === undefined) continue;
    const again = parseAuthority(formatAuthority(authority));
    must(again?.host === authority.host && again.port === authority.port, 'an authority that is written out reads as itself');
  }
}

/** The framing fields of one head. */
const framing: FuzzTarget = {
  name: 'framing',
  inputs: MILLION,
  headLines: 0,
  dictionary: [...HEADER_TOKENS, '0', '10', '+1', '0x1', '1, 1', 'identity', ' chunked', 'chunked\t', 'gzip, chunked', 'HTTP/1.0\n'],
  run(input) {
    const [version = '', ...lines] = input.toString('latin1').split('\n');
    const httpVersion = version.trim() === 'HTTP/1.0' ? '1.0' : '1.1';
    const fields = fieldsOf(lines);
    const read = framingOf(fields, httpVersion);
    const named = (name: string): number => fields.filter((field, i) => i % 2 === 0 && field.toLowerCase() === name).length;
    if (read instanceof GatewayError) {
      must(read.code === 'bad_framing', `framing is not refused by ${read.code}`);
      must(framingOf([...fields, 'X-More', '1'], httpVersion) instanceof GatewayError, 'a further field heals no framing');
      return read.message;
    }
    must(named('host') <= 1 && named('content-length') + named('transfer-encoding') <= 1, 'what is ambiguous is refused');
    must(named('host') === 1 || httpVersion === '1.0', 'a request of 1.1 has a Host');
    for (const more of ['Host', 'Content-Length', 'Transfer-Encoding']) {
      const doubled = [...fields, more, '0', more, '0'];
      must(framingOf(doubled, httpVersion) instanceof GatewayError, `a second ${more} is refused`);
    }
    const { declaredLength } = read;
    must(declaredLength === undefined ? named('transfer-encoding') === 1 : Number.isSafeInteger(declaredLength), 'a length is a number');
    must(named('content-length') === 1 || !declaredLength, 'there is a length only where one is declared');
    return `${declaredLength === undefined}`;
  },
};

const OPEN_DOOR = {
  allowedOrigins: new Set<string>(),
  publicNames: new Set(['gw.example']),
  loopbackBind: true,
  ports: new Set([7080, 7081]),
  catalogues: { current: () => catalogue },
};
const DOORS = ['connect', 'absolute', 'origin'] as const;
const TRUSTED = IpSet.parse(['127.0.0.0/8', '::1/128']);
const OWN_PATHS = new Set(['/healthz', '/v1/actions:execute']);

/** A whole head, from target and Host to identity: everything that is read before the body. */
const requestHead: FuzzTarget = {
  name: 'request-head',
  inputs: MILLION,
  headLines: 0,
  dictionary: [...PATH_TOKENS, ...HOST_TOKENS, ...HEADER_TOKENS, 'connect ', 'absolute ', 'origin '],
  run(input) {
    const [first = '', ...lines] = input.toString('latin1').split('\n');
    const [kind = '', method = 'GET', ...target] = first.split(' ');
    const door = DOORS.find((known) => known === kind) ?? 'origin';
    const rawHeaders = fieldsOf(lines);
    const tunnel = { authority: { host: 'api.openai.com', port: 443 }, proxyUser: 'ci', proxyPassword: 'x' };
    const one = {
      ...head({ door, method, rawTarget: target.join(' '), ...(door === 'connect' ? { tunnel, secure: true } : {}) }),
      rawHeaders,
      headers: joinedFields(rawHeaders),
    };
    const origin = classifyOrigin(one, { catalogue, ownsPath: (path) => OWN_PATHS.has(path) });
    const guarded = guardOrigin(one, OPEN_DOOR, { isPage: (path) => path === '/approvals/1' });
    const ip = callerIp(one, TRUSTED);
    must(parseIp(ip)?.text === ip, 'the address of a caller is an address');
    const identity = outcomeOf(['invalid_request'], () => readIdentity(one));
    const resolved = outcomeOf(['misdirected_request', 'no_target_host', 'invalid_target'], () => resolveTarget(one, catalogue));
    if (resolved.value === undefined) return `${door} ${origin} ${guarded?.code} ${identity.code} ${resolved.code}`;
    const { host, path, provider } = resolved.value;
    must(canonicalHost(host) === host, 'a target has a canonical host');
    must(door !== 'connect' || host === 'api.openai.com', 'a request in a tunnel goes nowhere else');
    if (provider === undefined) return `${door} ${origin} ${identity.code} other host`;
    must(canonicalPath(path, true) === path, 'a target has a canonical path');
    const operation = catalogue.operation(provider, method, pathOnly(path));
    const placed = outcomeOf(['ambiguous_body'], () => fillPlaces({}, path, operation));
    return `${door} ${identity.code} ${operation.actionType} ${operation.dialect?.id} ${placed.code ?? typeof placed.value?.model}`;
  },
};

/** Path and query of a call. */
const path: FuzzTarget = {
  name: 'path',
  inputs: MILLION,
  headLines: 0,
  dictionary: PATH_TOKENS,
  run(input) {
    const raw = input.toString('latin1');
    const plain = outcomeOf(['invalid_target'], () => canonicalPath(raw, false));
    if (plain.value !== undefined) must(canonicalPath(plain.value, false) === plain.value, 'a path elsewhere stays as it is');
    const { value, code } = outcomeOf(['invalid_target'], () => canonicalPath(raw, true));
    if (value === undefined) return `${code} ${plain.code}`;
    must(canonicalPath(value, true) === value, 'a canonical path canonicalises to itself');
    must(/^\/[!-~]*$/.test(value) && !value.includes('#'), 'a canonical path fits into a request line');
    const route = pathOnly(value);
    must(
      new URL(`http://h${route}`).pathname.split('/').length === route.split('/').length,
      'the URL standard finds no dot segment either',
    );
    must(
      !new URL(`http://h${route.replaceAll(/%2f|%5c/gi, '/').replaceAll('//', '/_/')}`).pathname.includes('/../'),
      'nothing climbs once decoded',
    );
    const names = queryNames(value);
    must(new Set(names).size === names.length, 'a name of the query is recorded once');
    must(!queryOf(recordedPath(value)).includes('='), 'no value of the query is recorded');
    for (const dialect of DIALECTS) outcomeOf(['ambiguous_body'], () => fillPlaces({}, value, { ...HTTP_REQUEST, dialect }));
    return `path ${Math.min(4, names.length)} ${value === raw}`;
  },
};

const DIALECTS = ['gemini_generate', 'azure_chat', 'openai_chat'].map((id) => catalogue.dialect(id));

const NEVER_LEAVES = /^(?:connection|keep-alive|te|trailer|transfer-encoding|upgrade|http2-settings|proxy-.*|x-gw-.*)$/i;

/** The header filters of both directions, and how an upstream's fields are decoded. */
const headers: FuzzTarget = {
  name: 'headers',
  inputs: MILLION,
  headLines: 0,
  dictionary: [
    ...HEADER_TOKENS,
    'Alt-Svc: h3',
    'Set-Cookie: a',
    'Content-Encoding: gzip',
    'Content-Type: text/plain',
    'X-GW-Decision: allow',
  ],
  run(input) {
    const fields = fieldsOf(input.toString('latin1').split('\n'));
    const answer = filterResponseHeaders(fields);
    const request = filterRequestHeaders(fields, { adminToken: 'admin', identity: true });
    for (const list of [answer.headers, request]) {
      must(list.length % 2 === 0, 'fields come in pairs');
      for (let i = 0; i < list.length; i += 2) must(!NEVER_LEAVES.test(list[i] ?? ''), `${list[i]} does not pass`);
    }
    must(
      request.every((text, i) => i % 2 === 0 || !/^(?:gw[kt]_|mgk_|mcpk_|admin$)/.test(text)),
      'no token of ours passes',
    );
    must(String(filterResponseHeaders(answer.headers).headers) === String(answer.headers), 'what was filtered stays');
    must(answer.contentLength === undefined || Number.isSafeInteger(answer.contentLength), 'a length is a number');
    // Windows on one chunk, as they come from a socket, with one that lies elsewhere.
    const windows = piecesOf(input.subarray(0, 2048));
    if (windows.length > 3) windows[1] = Buffer.from(windows[1] ?? '');
    const decoded = decodeRawHeaders(windows);
    must(
      decoded.every((text, i) => text === windows[i]?.toString('latin1')),
      'fields are decoded byte by byte',
    );
    return `${answer.contentLength === undefined} ${Math.min(8, answer.headers.length)} ${Math.min(8, request.length)} ${seenVia(fields, 'a')}`;
  },
};

/** The beginning of a TLS connection. */
const clientHello: FuzzTarget = {
  name: 'client-hello',
  inputs: MILLION,
  headLines: 0,
  dictionary: [
    '\x16\x03\x01',
    '\x16\x03\x01\x00\x01',
    '\x01\x00\x00',
    '\x00\x00',
    '\x00\x00\x00',
    '\xff\xff',
    '\x00\x0a',
    '\x00\x2b',
    'api.openai.com',
  ],
  run(input) {
    const whole = helloNames([input]);
    const pieces = helloNames(piecesOf(input));
    must(JSON.stringify(whole) === JSON.stringify(pieces), 'a ClientHello names the same however it is cut');
    must(!whole.done || whole.names.every((name) => input.length >= name.length), 'a name is part of what was sent');
    return `${whole.done} ${whole.names.length} ${whole.names.some((name) => canonicalHost(name) !== undefined)}`;
  },
};

function helloNames(pieces: readonly Buffer[]): { readonly done: boolean; readonly names: readonly string[] } {
  const reader = new ClientHelloReader();
  const done = pieces.some((piece) => reader.push(piece));
  must(done || reader.names.length === 0, 'nothing is named before everything is known');
  return { done, names: reader.names };
}

export const HEAD_TARGETS: readonly FuzzTarget[] = [connect, clientHello, framing, requestHead, path, headers];
