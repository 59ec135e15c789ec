/* Whether the authority has signed a token, and whether it is one that is trusted (RFC 3161 §2.4.2, RFC 5652 §5.4). */
import { createHash, verify, X509Certificate } from 'node:crypto';
import { contextTag, DER_TAG, DerError, type DerValue, expectTag, membersIn, membersOf, oidOf, readDer } from '../base/lib/der-reader.ts';
import { LedgerError } from './ledger-error.ts';
import { reading, readTimeStampToken, type TimeStampToken } from './time-stamp-token.ts';

const CONTENT_TYPE = '1.2.840.113549.1.9.3';
const MESSAGE_DIGEST = '1.2.840.113549.1.9.4';
/** In the older one certificates are named by SHA-1, in the newer by SHA-256 where nothing else is said. */
const SIGNING_CERTIFICATE = { '1.2.840.113549.1.9.16.2.12': 'sha1', '1.2.840.113549.1.9.16.2.47': 'sha256' } as const;
const TST_INFO = '1.2.840.113549.1.9.16.1.4';
const TIME_STAMPING = '1.3.6.1.5.5.7.3.8';
const DIGESTS: Readonly<Record<string, string>> = {
  '2.16.840.1.101.3.4.2.1': 'sha256',
  '2.16.840.1.101.3.4.2.2': 'sha384',
  '2.16.840.1.101.3.4.2.3': 'sha512',
};
/** How the algorithm of a signature says its digest; undefined: that of the signer holds. */
const SIGNATURES: Readonly<Record<string, string | undefined>> = {
  '1.2.840.113549.1.1.1': undefined,
  '1.2.840.113549.1.1.11': 'sha256',
  '1.2.840.113549.1.1.12': 'sha384',
  '1.2.840.113549.1.1.13': 'sha512',
  '1.2.840.10045.4.3.2': 'sha256',
  '1.2.840.10045.4.3.3': 'sha384',
  '1.2.840.10045.4.3.4': 'sha512',
};
const WHAT = 'time stamp';
const MOST_CERTIFICATES = 10;

/** What is asked of a token. */
export interface StampCheck {
  /** SHA-256 of what was stamped, lower-case hex. */
  readonly imprint: string;
  /** Of the request, as {@link TimeStampToken.nonce}; undefined: nobody remembers it. */
  readonly nonce?: string | undefined;
  /** Whom to trust; undefined: whoever has signed it, so that it says no more than that somebody has. */
  readonly trusted: readonly X509Certificate[] | undefined;
}

/**
 * Reads a token and checks all of it.
 * @throws LedgerError that says what does not fit
 */
export function checkTimeStamp(token: Buffer, { imprint, nonce, trusted }: StampCheck): TimeStampToken {
  const read = readTimeStampToken(token);
  if (read.imprint !== imprint) throw new LedgerError(`${WHAT}: it is of something else (${read.imprint})`);
  if (nonce !== undefined && read.nonce !== nonce) throw new LedgerError(`${WHAT}: it answers another request`);
  reading(() => checkSigned(read, trusted));
  return read;
}

function checkSigned(token: TimeStampToken, trusted: StampCheck['trusted']): void {
  const [, sid, digestAlgorithm, attributes, signatureAlgorithm, signature] = membersOf(token.signerInfo);
  const digest = DIGESTS[algorithmIn(digestAlgorithm)];
  const algorithm = algorithmIn(signatureAlgorithm);
  if (digest === undefined || !Object.hasOwn(SIGNATURES, algorithm))
    throw new DerError(`its signature is of a kind that is not known (${algorithm})`);
  const signed = expectTag(attributes, contextTag(0), 'what its signer has signed');
  const values = attributesIn(signed);
  if (oidOf(only(values, CONTENT_TYPE), 'the type of its content') !== TST_INFO) throw new DerError('its content is of another type');
  const stated = expectTag(only(values, MESSAGE_DIGEST), DER_TAG.octets, 'its digest').content;
  if (!stated.equals(createHash(digest).update(token.signedContent).digest())) throw new LedgerError(`${WHAT}: what it says was changed`);
  const signer = signerAmong(token.certificates, sid, values);
  // Signed is the set itself; in the token its tag is another (RFC 5652 §5.4).
  const bytes = Buffer.concat([Buffer.of(DER_TAG.set), signed.whole.subarray(1)]);
  const fits = verify(
    SIGNATURES[algorithm] ?? digest,
    bytes,
    signer.publicKey,
    expectTag(signature, DER_TAG.octets, 'its signature').content,
  );
  if (!fits) throw new LedgerError(`${WHAT}: its signature does not fit`);
  if (!signer.keyUsage?.includes(TIME_STAMPING)) throw new LedgerError(`${WHAT}: its certificate is not one for time stamps`);
  if (trusted !== undefined) checkChain(signer, token, trusted);
}

function algorithmIn(value: DerValue | undefined): string {
  return oidOf(membersIn(value, DER_TAG.sequence, 'an algorithm')[0], 'an algorithm');
}

/** The values of each attribute, by its type. */
function attributesIn(signed: DerValue): ReadonlyMap<string, readonly DerValue[]> {
  return new Map(
    membersOf(signed).map((attribute) => {
      const [type, values] = membersIn(attribute, DER_TAG.sequence, 'an attribute');
      return [oidOf(type, 'an attribute'), membersIn(values, DER_TAG.set, 'an attribute')] as const;
    }),
  );
}

function only(attributes: ReadonlyMap<string, readonly DerValue[]>, type: string): DerValue | undefined {
  const values = attributes.get(type) ?? [];
  return values.length === 1 ? values[0] : undefined;
}

/** The certificate that the token names twice: by its issuer and number, and by its hash (RFC 3161, RFC 5816). */
function signerAmong(
  certificates: readonly Buffer[],
  sid: DerValue | undefined,
  attributes: ReadonlyMap<string, readonly DerValue[]>,
): X509Certificate {
  if (certificates.length > MOST_CERTIFICATES) throw new DerError(`it has more than ${MOST_CERTIFICATES} certificates`);
  const found = certificates.find((certificate) => isNamed(certificate, sid) && isHashed(certificate, attributes));
  if (found === undefined) throw new LedgerError(`${WHAT}: the certificate of its signer is not in it`);
  try {
    return new X509Certificate(found);
  } catch (error) {
    throw new DerError('the certificate of its signer cannot be read', { cause: error });
  }
}

function isNamed(certificate: Buffer, sid: DerValue | undefined): boolean {
  const [issuer, serial] = membersIn(sid, DER_TAG.sequence, 'the name of its signer');
  const [body] = membersIn(readDer(certificate), DER_TAG.sequence, 'a certificate');
  const members = membersIn(body, DER_TAG.sequence, 'a certificate').filter(({ tag }) => tag !== contextTag(0));
  const [number, , name] = members;
  return number?.whole.equals(serial?.whole ?? Buffer.alloc(0)) === true && name?.whole.equals(issuer?.whole ?? Buffer.alloc(0)) === true;
}

function isHashed(certificate: Buffer, attributes: ReadonlyMap<string, readonly DerValue[]>): boolean {
  return Object.entries(SIGNING_CERTIFICATE).some(([type, usual]) => {
    const value = only(attributes, type);
    if (value === undefined) return false;
    const [list] = membersIn(value, DER_TAG.sequence, 'its certificates');
    const [first] = membersIn(list, DER_TAG.sequence, 'its certificates');
    const [algorithm, ...rest] = membersIn(first, DER_TAG.sequence, 'its certificate');
    const named = algorithm?.tag === DER_TAG.sequence ? DIGESTS[algorithmIn(algorithm)] : usual;
    const hash = algorithm?.tag === DER_TAG.sequence ? rest[0] : algorithm;
    return named !== undefined && hash?.content.equals(createHash(named).update(certificate).digest()) === true;
  });
}

/** From the signer up to one that is trusted; each was valid at the time of the stamp. */
function checkChain(signer: X509Certificate, { time, certificates }: TimeStampToken, trusted: readonly X509Certificate[]): void {
  const between = certificates.flatMap(readable);
  let current = signer;
  for (let length = 0; length <= MOST_CERTIFICATES; length++) {
    checkValid(current, time);
    if (trusted.some(({ raw }) => raw.equals(current.raw))) return;
    const issuer =
      trusted.find((one) => hasIssued(one, current)) ?? between.find((one) => !one.raw.equals(current.raw) && hasIssued(one, current));
    if (issuer === undefined) break;
    current = issuer;
  }
  throw new LedgerError(`${WHAT}: its authority is none that is trusted (${oneLine(signer.subject)})`);
}

function readable(certificate: Buffer): X509Certificate[] {
  try {
    return [new X509Certificate(certificate)];
  } catch {
    return [];
  }
}

function hasIssued(issuer: X509Certificate, certificate: X509Certificate): boolean {
  return issuer.ca && certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);
}

function checkValid({ validFrom, validTo, subject }: X509Certificate, time: string): void {
  const at = Date.parse(time);
  if (at < Date.parse(validFrom) || at > Date.parse(validTo))
    throw new LedgerError(`${WHAT}: a certificate of its authority was not valid at ${time} (${oneLine(subject)})`);
}

function oneLine(subject: string): string {
  return subject.replaceAll('\n', ', ').slice(0, 200);
}

/** Certificates of a PEM text. @throws Error when one cannot be read, or there is none */
export function certificatesOf(pem: string): readonly X509Certificate[] {
  const texts = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  if (texts.length === 0) throw new Error('there is no certificate in it');
  return texts.map((text) => new X509Certificate(text));
}
