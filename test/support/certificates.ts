import { createHash, createPrivateKey, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import { isIP } from 'node:net';

/** A certificate with its key, both PEM. */
export interface CertificateAndKey {
  readonly certPem: string;
  readonly keyPem: string;
}

export interface LeafOptions {
  /** DNS names (wildcards too) and IP addresses of the subject alternative name. */
  readonly hosts: readonly string[];
  /** Default: {@link ALWAYS}. */
  readonly notBefore?: Date;
  readonly notAfter?: Date;
  /** The first host stands in the common name alone. */
  readonly commonNameOnly?: true;
  /** What it is for; default: servers. */
  readonly purpose?: 'client';
  /** Names an extension that nobody knows, and that may not be passed over. */
  readonly oddExtension?: true;
}

/**
 * A throw-away certificate authority. Written without a PKI library, so that what it mints is no echo of the code under
 * test.
 */
export interface TestCa extends CertificateAndKey {
  leaf(options: LeafOptions): CertificateAndKey;
  /** A client certificate for the key of a request (PKCS #10, DER), whose signature is not looked at. PEM. */
  answer(csr: Uint8Array, node: NodeSubject, validity: Validity): string;
}

/** Whom a client certificate names. */
export interface NodeSubject {
  readonly commonName: string;
  readonly organization: string;
}

export interface Validity {
  readonly notBefore: Date;
  readonly notAfter: Date;
}

/**
 * Who verifies a certificate asks the machine what day it is: one that nobody is to find early or late is valid on
 * every day that there may be.
 */
export const ALWAYS: Validity = { notBefore: new Date(Date.UTC(2020, 0)), notAfter: new Date(Date.UTC(2049, 11, 31)) };
/** Over on every day that there may be, and to come on every one. */
export const LONG_OVER: Validity = { notBefore: new Date(Date.UTC(2020, 0)), notAfter: new Date(Date.UTC(2021, 0)) };
export const FAR_AWAY: Validity = { notBefore: new Date(Date.UTC(2048, 0)), notAfter: new Date(Date.UTC(2049, 11, 31)) };

/** A root that lives for this test only. `name` is its common name. */
export function testCa(name = 'Throw-away test root'): TestCa {
  const keys = newKey();
  const subject = commonName(name);
  const keyId = keyIdOf(keys.spki);
  const certDer = certificate({
    subject,
    issuer: subject,
    spki: keys.spki,
    ...ALWAYS,
    extensions: [
      extension('2.5.29.19', true, seq(bool(true))),
      extension('2.5.29.15', true, Buffer.from([0x03, 0x02, 0x01, 0x06])),
      extension('2.5.29.14', false, tlv(0x04, keyId)),
    ],
    signer: keys.key,
  });
  return {
    certPem: pem(certDer),
    keyPem: keys.keyPem,
    leaf: (options) => mintLeaf(options, subject, keys.key, keyId),
    answer: (csr, node, validity) =>
      pem(
        certificate({
          subject: seq(attribute('2.5.4.10', node.organization), attribute('2.5.4.3', node.commonName)),
          issuer: subject,
          spki: keyOfRequest(Buffer.from(csr)),
          ...validity,
          extensions: [
            extension('2.5.29.19', true, seq()),
            extension('2.5.29.15', true, Buffer.from([0x03, 0x02, 0x07, 0x80])),
            extension('2.5.29.37', false, seq(oid('1.3.6.1.5.5.7.3.2'))),
            extension('2.5.29.35', false, seq(tlv(0x80, keyId))),
          ],
          signer: keys.key,
        }),
      ),
  };
}

/** A leaf that signs itself. */
export function selfSigned(hosts: readonly string[]): CertificateAndKey {
  const keys = newKey();
  return mintLeaf({ hosts }, commonName(hosts[0] ?? 'nobody'), keys.key, keyIdOf(keys.spki), keys);
}

interface Keys {
  readonly key: KeyObject;
  readonly keyPem: string;
  readonly spki: Buffer;
}

function newKey(): Keys {
  const { privateKey, publicKey } = generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'der' },
  });
  return { key: createPrivateKey(privateKey), keyPem: privateKey, spki: publicKey };
}

function mintLeaf(options: LeafOptions, issuer: Buffer, signer: KeyObject, issuerKeyId: Buffer, keys = newKey()): CertificateAndKey {
  const certDer = certificate({
    subject: commonName(options.hosts[0] ?? 'nobody'),
    issuer,
    spki: keys.spki,
    notBefore: options.notBefore ?? ALWAYS.notBefore,
    notAfter: options.notAfter ?? ALWAYS.notAfter,
    extensions: [
      extension('2.5.29.19', true, seq()),
      extension('2.5.29.15', true, Buffer.from([0x03, 0x02, 0x07, 0x80])),
      extension('2.5.29.37', false, seq(oid(options.purpose === 'client' ? '1.3.6.1.5.5.7.3.2' : '1.3.6.1.5.5.7.3.1'))),
      extension('2.5.29.35', false, seq(tlv(0x80, issuerKeyId))),
      ...(options.commonNameOnly ? [] : [extension('2.5.29.17', false, seq(...options.hosts.map(generalName)))]),
      ...(options.oddExtension ? [extension('1.2.3.4', true, seq())] : []),
    ],
    signer,
  });
  return { certPem: pem(certDer), keyPem: keys.keyPem };
}

interface CertificateFields extends Validity {
  readonly subject: Buffer;
  readonly issuer: Buffer;
  readonly spki: Buffer;
  readonly extensions: readonly Buffer[];
  readonly signer: KeyObject;
}

/** RFC 5280 §4.1, signed by ECDSA with SHA-256. */
function certificate(fields: CertificateFields): Buffer {
  const algorithm = seq(oid('1.2.840.10045.4.3.2'));
  const serial = randomBytes(16);
  serial[0] = ((serial[0] ?? 0) & 0x3f) | 0x40;
  const toSign = seq(
    tlv(0xa0, tlv(0x02, Buffer.from([2]))),
    tlv(0x02, serial),
    algorithm,
    fields.issuer,
    seq(time(fields.notBefore), time(fields.notAfter)),
    fields.subject,
    fields.spki,
    tlv(0xa3, seq(...fields.extensions)),
  );
  const signature = sign('sha256', toSign, fields.signer);
  return seq(toSign, algorithm, tlv(0x03, Buffer.concat([Buffer.from([0]), signature])));
}

function keyIdOf(spki: Buffer): Buffer {
  return createHash('sha1').update(spki).digest();
}

function commonName(name: string): Buffer {
  return seq(attribute('2.5.4.3', name));
}

function attribute(id: string, value: string): Buffer {
  return tlv(0x31, seq(oid(id), tlv(0x0c, Buffer.from(value, 'utf8'))));
}

/** RFC 2986 §4: of the request's first member the third, behind version and subject. */
function keyOfRequest(csr: Buffer): Buffer {
  const inside = membersOf(csr);
  const [, , spki] = membersOf(inside[0] ?? Buffer.alloc(0));
  if (spki === undefined) throw new Error('this is no certification request');
  return spki;
}

/** The members of a DER sequence, each whole. */
function membersOf(der: Buffer): Buffer[] {
  const { from, to } = contentOf(der, 0);
  const members: Buffer[] = [];
  for (let at = from; at < to; ) {
    const end = contentOf(der, at).to;
    members.push(der.subarray(at, end));
    at = end;
  }
  return members;
}

function contentOf(der: Buffer, at: number): { readonly from: number; readonly to: number } {
  const first = der[at + 1] ?? 0;
  const bytes = first < 0x80 ? 0 : first & 0x7f;
  const length = bytes === 0 ? first : der.readUIntBE(at + 2, bytes);
  const from = at + 2 + bytes;
  return { from, to: from + length };
}

function generalName(host: string): Buffer {
  const family = isIP(host);
  if (family === 0) return tlv(0x82, Buffer.from(host, 'latin1'));
  return tlv(0x87, family === 4 ? Buffer.from(host.split('.').map(Number)) : ipv6Bytes(host));
}

function ipv6Bytes(host: string): Buffer {
  const [left = '', right] = host.split('::');
  const groups = (text: string): number[] => (text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16)));
  const head = groups(left);
  const tail = right === undefined ? [] : groups(right);
  const words = [...head, ...new Array<number>(8 - head.length - tail.length).fill(0), ...tail];
  return Buffer.from(words.flatMap((word) => [word >>> 8, word & 255]));
}

function extension(id: string, critical: boolean, value: Buffer): Buffer {
  return seq(oid(id), ...(critical ? [bool(true)] : []), tlv(0x04, value));
}

function tlv(tag: number, content: Buffer): Buffer {
  const { length } = content;
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >>> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}

function seq(...parts: readonly Buffer[]): Buffer {
  return tlv(0x30, Buffer.concat(parts));
}

function bool(value: boolean): Buffer {
  return tlv(0x01, Buffer.from([value ? 0xff : 0]));
}

function oid(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split('.').map(Number);
  const bytes = [first * 40 + second];
  for (const arc of rest) {
    const groups = [arc & 0x7f];
    for (let left = Math.floor(arc / 128); left > 0; left = Math.floor(left / 128)) groups.unshift((left & 0x7f) | 0x80);
    bytes.push(...groups);
  }
  return tlv(0x06, Buffer.from(bytes));
}

function time(date: Date): Buffer {
  const digits = date.toISOString().replace(/[-:T]/g, '').slice(0, 14);
  return date.getUTCFullYear() < 2050 ? tlv(0x17, Buffer.from(`${digits.slice(2)}Z`)) : tlv(0x18, Buffer.from(`${digits}Z`));
}

function pem(der: Buffer): string {
  const lines = der.toString('base64').match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`;
}
