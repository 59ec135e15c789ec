/*
 * Tokens of RFC 3161: what they say, and whether their signature holds (CMS, RFC 5652). Only what an authority must
 * sign is read; whom it is signed by is `time-stamp-signer`.
 */
import {
  contextTag,
  DER_TAG,
  DerError,
  type DerValue,
  derBytes,
  derInteger,
  expectTag,
  membersIn,
  membersOf,
  oidOf,
  readDer,
} from '../base/lib/der-reader.ts';
import { LedgerError } from './ledger-error.ts';

const OID = {
  signedData: '1.2.840.113549.1.7.2',
  tstInfo: '1.2.840.113549.1.9.16.1.4',
} as const;
/** AlgorithmIdentifier of SHA-256 without parameters. */
const SHA256_ID = Buffer.from('300b0609608648016503040201', 'hex');
const SHA256 = '2.16.840.1.101.3.4.2.1';
const BOOLEAN_TRUE = Buffer.of(1, 1, 0xff);
const WHAT = 'time stamp';
/** `granted`, `grantedWithMods`. */
const GRANTED = [0, 1];
const GENERALIZED = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(?:\.(\d{1,9}))?Z$/;

/** What a token says, and what is needed to check who says so. */
export interface TimeStampToken {
  /** RFC 3339. */
  readonly time: string;
  /** SHA-256 of what was stamped, lower-case hex. */
  readonly imprint: string;
  /** Lower-case hex of the number; undefined: there is none. */
  readonly nonce: string | undefined;
  /** What the authority has signed: the TSTInfo. */
  readonly signedContent: Buffer;
  /** Of CMS. */
  readonly signerInfo: DerValue;
  /** DER, as they are in the token. */
  readonly certificates: readonly Buffer[];
}

/** A request for a stamp, with the certificate of the authority. @param imprint SHA-256 of what is stamped */
export function timeStampRequest(imprint: Uint8Array, nonce: Uint8Array): Buffer {
  return derBytes(
    DER_TAG.sequence,
    derInteger(Buffer.of(1)),
    derBytes(DER_TAG.sequence, SHA256_ID, derBytes(DER_TAG.octets, imprint)),
    derInteger(nonce),
    BOOLEAN_TRUE,
  );
}

/** The token of an answer. @throws LedgerError when there is none, with what the authority says of it */
export function tokenOfAnswer(answer: Buffer): Buffer {
  return reading(() => {
    const [info, token] = membersIn(readDer(answer), DER_TAG.sequence, 'the answer');
    const [status, ...more] = membersIn(info, DER_TAG.sequence, 'its status');
    const code = numberOf(expectTag(status, DER_TAG.integer, 'its status'));
    if (!GRANTED.includes(code)) throw new LedgerError(`${WHAT}: the authority refuses it (status ${code}${statusText(more)})`);
    return expectTag(token, DER_TAG.sequence, 'its token').whole;
  });
}

/** An answer around a token, as files of `openssl ts` hold it. */
export function answerAround(token: Uint8Array): Buffer {
  return derBytes(DER_TAG.sequence, derBytes(DER_TAG.sequence, derInteger(Buffer.of(0))), token);
}

/** Reads what says of itself that it is a token; whether it is to be believed is `checkSigner`. @throws LedgerError */
export function readTimeStampToken(token: Buffer): TimeStampToken {
  return reading(() => {
    const [type, wrapped] = membersIn(readDer(token), DER_TAG.sequence, 'the token');
    if (oidOf(type, 'its type') !== OID.signedData) throw new DerError('it is not signed data');
    const [signedData] = membersIn(wrapped, contextTag(0), 'its content');
    const [, , content, ...rest] = membersIn(signedData, DER_TAG.sequence, 'the signed data');
    const [contentType, inner] = membersIn(content, DER_TAG.sequence, 'what was signed');
    if (oidOf(contentType, 'what was signed') !== OID.tstInfo) throw new DerError('what was signed is no time stamp');
    const signedContent = expectTag(membersIn(inner, contextTag(0), 'what was signed')[0], DER_TAG.octets, 'what was signed').content;
    const certificates = rest.find(({ tag }) => tag === contextTag(0));
    const [signerInfo, ...others] = membersIn(
      rest.find(({ tag }) => tag === DER_TAG.set),
      DER_TAG.set,
      'its signer',
    );
    if (others.length > 0) throw new DerError('it has more than one signer');
    return {
      ...statementOf(signedContent),
      signedContent,
      signerInfo: expectTag(signerInfo, DER_TAG.sequence, 'its signer'),
      certificates: certificates === undefined ? [] : membersOf(certificates).map(({ whole }) => whole),
    };
  });
}

/** Members of a TSTInfo. */
function statementOf(signedContent: Buffer): Pick<TimeStampToken, 'time' | 'imprint' | 'nonce'> {
  const [, , imprint, , time, ...rest] = membersIn(readDer(signedContent), DER_TAG.sequence, 'the statement');
  const [algorithm, digest] = membersIn(imprint, DER_TAG.sequence, 'its imprint');
  if (oidOf(membersIn(algorithm, DER_TAG.sequence, 'its algorithm')[0], 'its algorithm') !== SHA256)
    throw new DerError('its imprint is not of SHA-256');
  const nonce = rest.find(({ tag }) => tag === DER_TAG.integer);
  return {
    time: timeOf(expectTag(time, DER_TAG.generalizedTime, 'its time')),
    imprint: expectTag(digest, DER_TAG.octets, 'its imprint').content.toString('hex'),
    nonce: nonce === undefined ? undefined : hexOfNumber(nonce.content),
  };
}

function timeOf({ content }: DerValue): string {
  const [whole, year, month, day, hour, minute, second, fraction = ''] = GENERALIZED.exec(content.toString('latin1')) ?? [];
  const text = `${year}-${month}-${day}T${hour}:${minute}:${second}.${fraction.padEnd(3, '0').slice(0, 3)}Z`;
  if (whole === undefined || Number.isNaN(Date.parse(text))) throw new DerError('its time cannot be read');
  return text;
}

/** A number as text, without the zeros before it. */
export function hexOfNumber(bytes: Uint8Array): string {
  return Buffer.from(bytes)
    .toString('hex')
    .replace(/^(?:00)+(?=.)/, '');
}

function numberOf({ content }: DerValue): number {
  return content.length === 1 ? (content[0] ?? 0) : Number.NaN;
}

/** The words of the authority, where it has some: they are a stranger's, and one line. */
function statusText(more: readonly DerValue[]): string {
  const text = more.find(({ tag }) => tag === DER_TAG.sequence);
  const words =
    text === undefined
      ? ''
      : membersOf(text)
          .map(({ content }) => content.toString('utf8'))
          .join(' ');
  return words === '' ? '' : `: ${words.slice(0, 200)}`;
}

/** @throws LedgerError in place of DerError */
export function reading<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof DerError) throw new LedgerError(`${WHAT}: it cannot be read: ${error.message}`, { cause: error });
    throw error;
  }
}
