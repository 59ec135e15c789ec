import { createHash, createHmac } from 'node:crypto';

/** A key of AWS as its documentation shows it. */
export const AWS_KEY = { id: 'AKIDEXAMPLE', secret: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY' } as const;

export interface SignedRequest {
  readonly method: string;
  /** Path and query as they are sent. */
  readonly path: string;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: string | Uint8Array;
}

export interface SigningScope {
  readonly region: string;
  readonly service: string;
  /** As `x-amz-date` has it. */
  readonly date: string;
}

/** AWS Signature Version 4: the value of Authorization for a request whose `signed` headers are covered. */
export function authorizationV4(request: SignedRequest, signed: readonly string[], scope: SigningScope): string {
  const day = scope.date.slice(0, 8);
  const credential = `${day}/${scope.region}/${scope.service}/aws4_request`;
  const names = [...signed].sort().join(';');
  const text = ['AWS4-HMAC-SHA256', scope.date, credential, sha256(canonicalRequest(request, names))].join('\n');
  const key = [day, scope.region, scope.service, 'aws4_request'].reduce<string | Buffer>(hmac, `AWS4${AWS_KEY.secret}`);
  const signature = hmac(key, text).toString('hex');
  return `AWS4-HMAC-SHA256 Credential=${AWS_KEY.id}/${credential}, SignedHeaders=${names}, Signature=${signature}`;
}

/** What a service of AWS does with a request that reached it: signs it again and compares. */
export function verifiesV4(request: SignedRequest): boolean {
  const given = request.headers['authorization'] ?? '';
  const found = /Credential=[^/]+\/\d+\/([^/]+)\/([^/]+)\/aws4_request, SignedHeaders=([^,]+), Signature=/.exec(given);
  const [, region = '', service = '', names = ''] = found ?? [];
  return (
    found !== null && authorizationV4(request, names.split(';'), { region, service, date: request.headers['x-amz-date'] ?? '' }) === given
  );
}

/** Every service but S3 escapes the path that it is sent once more. */
function canonicalRequest({ method, path, headers, body }: SignedRequest, names: string): string {
  const [route = '', query = ''] = path.split('?', 2);
  const fields = names.split(';').map((name) => `${name}:${(headers[name] ?? '').trim().replace(/ +/g, ' ')}\n`);
  const parameters = query
    .split('&')
    .filter((part) => part !== '')
    .map((part) => (part.includes('=') ? part : `${part}=`))
    .sort();
  return [method, route.split('/').map(escaped).join('/'), parameters.join('&'), fields.join(''), names, sha256(body)].join('\n');
}

function escaped(segment: string): string {
  return encodeURIComponent(segment).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
}

function sha256(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('hex');
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}
