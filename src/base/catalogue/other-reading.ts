/** What ends a segment or a path in some servers, however often its escape was escaped itself: a slash, a backslash, the beginning of a query, of a fragment or of a path parameter. */
const SEPARATOR = /;|%(?:25)*(?:2F|5C|3F|23|3B)/i;
const SLASHES = /%(?:25)*(?:2F|5C)/gi;
/** From where on a server may take no notice of a path. */
const CUT = /%(?:25)*(?:3F|23).*$/is;
const PARAMETERS = /(?:;|%(?:25)*3B)[^/]*/gi;

/**
 * The path that a server sees which decodes before it routes, or leaves path parameters out: `/v1/threads/x%2Fruns` is then `/v1/threads/x/runs`. Undefined where
 * there is only one way to read it.
 * @param path without its query
 */
export function otherReading(path: string): string | undefined {
  if (!SEPARATOR.test(path)) return undefined;
  const read = path.replace(CUT, '').replace(SLASHES, '/').replace(PARAMETERS, '');
  let end = read.length;
  while (end > 1 && read.endsWith('/', end)) end--;
  return read.slice(0, end);
}

const ODD = /[%;#\\A-Z]|\/[/.]/;
const ESCAPES = /%(?:25)*([0-9A-F]{2})/gi;
/** An escape may be spelt with escapes; who decodes more often than this reads nothing that anybody has written. */
const MOST_DECODED = 4;

/**
 * The path as the most lenient of servers may read it: escapes decoded, however often they were escaped, in lower case, without path parameters, empty segments and
 * dot segments. A usual path is returned as it is.
 * @param path without its query
 */
export function looseReading(path: string): string {
  if (!ODD.test(path)) return path;
  let decoded = path;
  for (let times = 0; times < MOST_DECODED && decoded.includes('%'); times++)
    decoded = decoded.replace(ESCAPES, (_escape, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
  const [route = ''] = decoded.split(/[?#]/, 1);
  const kept: string[] = [];
  for (const part of route.toLowerCase().replaceAll('\\', '/').split('/')) {
    const [name = ''] = part.split(';', 1);
    if (name === '..') kept.pop();
    else if (name !== '' && name !== '.') kept.push(name);
  }
  return `/${kept.join('/')}`;
}
