/** Every scheme of AWS Signature Version 4 and 4A begins with it. */
const SCHEME = 'AWS4-';
const IN_HEADER = /\bSignedHeaders=([^,\s]+)/;
const IN_QUERY = /[?&]X-Amz-SignedHeaders=([^&]*)/i;

/**
 * Lower-case names of the headers that a caller's AWS signature covers, beside method, path, query and body; undefined for a request that is not signed. All of
 * them must reach the provider as they were signed, or it refuses the call.
 * @param path with its query, where a signature may stand too
 */
export function signedHeaders(authorization: string | undefined, path: string): readonly string[] | undefined {
  if (isSignature(authorization)) return names(IN_HEADER.exec(authorization)?.[1]);
  if (!path.includes('X-Amz-Signature=')) return undefined;
  return names(IN_QUERY.exec(path)?.[1]?.replaceAll(/%3b/gi, ';'));
}

/** True for the value of an Authorization that is a signature of the request. */
export function isSignature(authorization: string | undefined): authorization is string {
  return authorization?.startsWith(SCHEME) === true;
}

function names(list: string | undefined): readonly string[] {
  return list === undefined || list === '' ? [] : list.toLowerCase().split(';');
}
