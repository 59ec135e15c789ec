import { createHash, createPublicKey, generateKeyPairSync, type KeyObject, sign, verify } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { type HasTeardown, tempDir } from './temp-dir.ts';

/** What is sent back. */
export interface LogAnswer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Members of an entry that tests change. */
export interface AnsweredEntry {
  body: string;
  integratedTime: number;
  logID: string;
  logIndex: number;
  verification: {
    signedEntryTimestamp: string;
    inclusionProof: { checkpoint: string; hashes: string[]; logIndex: number; rootHash: string; treeSize: number };
  };
}

/** A log on a port of this machine that does what Rekor does with entries of the type `dsse`. */
export interface TestLog {
  readonly url: string;
  /** PEM file of its public key. */
  readonly keyFile: string;
  /** Questions so far, as `POST /path`. */
  readonly asked: string[];
  /** Orgs whose roots it holds, in the order of their leaves. */
  readonly orgs: string[];
  /** Bodies of entries, in the order of their leaves. */
  readonly leaves: Buffer[];
  /** What it answers in place of what it would; undefined from it: nothing at all. */
  answer: ((org: string, would: () => LogAnswer) => LogAnswer | undefined) | undefined;
  /** Changes an entry before it is answered. */
  tamper: ((entry: AnsweredEntry) => void) | undefined;
  /** The promise and the checkpoint of an entry, signed anew. */
  signAnew(entry: AnsweredEntry): void;
}

const TREE_ID = '24296fb24b8ad77a';
const NAME = 'log.test';
/** As many leaves as other trees of the log have before this one. */
const BEFORE = 4_163_431;

/** @param key of the log; default: an ECDSA key on P-256 of its own */
export async function startLog(
  t: HasTeardown,
  key: KeyObject = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey,
): Promise<TestLog> {
  const dir = tempDir(t);
  const spki = createPublicKey(key);
  writeFileSync(join(dir, 'log.pem'), spki.export({ type: 'spki', format: 'pem' }));
  const logID = hashHex(spki.export({ type: 'spki', format: 'der' }));
  const signed = (message: string) => sign(key.asymmetricKeyType === 'ed25519' ? null : 'sha256', Buffer.from(message), key);
  const leaves: Buffer[] = [];
  const log: Omit<TestLog, 'url'> = {
    keyFile: join(dir, 'log.pem'),
    asked: [],
    orgs: [],
    leaves,
    answer: undefined,
    tamper: undefined,
    signAnew(entry) {
      const { body, integratedTime, verification } = entry;
      const promise = JSON.stringify({ body, integratedTime, logID: entry.logID, logIndex: entry.logIndex });
      verification.signedEntryTimestamp = signed(promise).toString('base64');
      const { treeSize, rootHash } = verification.inclusionProof;
      const note = `${NAME} - 42\n${treeSize}\n${Buffer.from(rootHash, 'hex').toString('base64')}\n`;
      const line = Buffer.concat([Buffer.from(logID.slice(0, 8), 'hex'), signed(note)]).toString('base64');
      verification.inclusionProof.checkpoint = `${note}\n— ${NAME} ${line}\n`;
    },
  };
  const entryAt = (at: number): string => {
    const entry: AnsweredEntry = {
      body: leaves[at]?.toString('base64') ?? '',
      integratedTime: 1_790_000_000 + at,
      logID,
      logIndex: BEFORE + at,
      verification: {
        signedEntryTimestamp: '',
        inclusionProof: {
          checkpoint: '',
          hashes: pathOf(at, leaves).map((hash) => hash.toString('hex')),
          logIndex: at,
          rootHash: treeOf(leaves).toString('hex'),
          treeSize: leaves.length,
        },
      },
    };
    log.signAnew(entry);
    log.tamper?.(entry);
    return JSON.stringify({ [uuidOf(leaves[at] ?? Buffer.alloc(0))]: entry });
  };
  const entered = (proposal: string): LogAnswer => {
    const body = bodyOf(proposal);
    if (body === undefined) return { status: 400, body: '{"code":400,"message":"error processing entry: could not verify envelope"}' };
    const uuid = uuidOf(body);
    const location = `/api/v1/log/entries/${uuid}`;
    if (leaves.some((leaf) => leaf.equals(body)))
      return { status: 409, headers: { location }, body: `{"code":409,"message":"an equivalent entry already exists with UUID ${uuid}"}` };
    leaves.push(body);
    log.orgs.push(orgIn(proposal));
    return { status: 201, headers: { location, etag: uuid }, body: entryAt(leaves.length - 1) };
  };
  const found = (path: string): LogAnswer => {
    const at = leaves.findIndex((leaf) => path.endsWith(uuidOf(leaf)));
    return at < 0 ? { status: 404, body: '{"code":404,"message":"not found"}' } : { status: 200, body: entryAt(at) };
  };
  const server = createServer((request, response) => {
    void answerOf(request).then((answer) => {
      if (answer !== undefined)
        response.writeHead(answer.status, { 'content-type': 'application/json', ...answer.headers }).end(answer.body);
    });
  });
  const answerOf = async (request: IncomingMessage): Promise<LogAnswer | undefined> => {
    const proposal = await text(request);
    const { method = '', url = '' } = request;
    log.asked.push(`${method} ${url}`);
    const would = () => (method === 'POST' && url === '/base/api/v1/log/entries' ? entered(proposal) : found(url));
    return log.answer === undefined ? would() : log.answer(method === 'POST' ? orgIn(proposal) : '', would);
  };
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return Object.assign(log, { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/base` });
}

interface Proposal {
  readonly kind: string;
  readonly apiVersion: string;
  readonly spec: { readonly proposedContent: { readonly envelope: string; readonly verifiers: readonly string[] } };
}

interface Envelope {
  readonly payloadType: string;
  readonly payload: string;
  readonly signatures: readonly { readonly sig: string; readonly keyid?: string }[];
}

/** What the log keeps of a proposal; undefined: its signature does not fit. */
function bodyOf(proposal: string): Buffer | undefined {
  const { kind, apiVersion, spec } = JSON.parse(proposal) as Proposal;
  const { envelope, verifiers } = spec.proposedContent;
  const { payloadType, payload, signatures } = JSON.parse(envelope) as Envelope;
  const bytes = Buffer.from(payload, 'base64');
  const message = Buffer.concat([Buffer.from(`DSSEv1 ${payloadType.length} ${payloadType} ${bytes.length} `), bytes]);
  const [signature, verifier] = [signatures[0]?.sig ?? '', verifiers[0] ?? ''];
  const key = createPublicKey(Buffer.from(verifier, 'base64').toString());
  const fits = verify(null, message, key, Buffer.from(signature, 'base64'));
  if (kind !== 'dsse' || apiVersion !== '0.0.1' || signatures.length !== 1 || signatures[0]?.keyid !== undefined || !fits) return undefined;
  const sha256 = (value: string) => `{"algorithm":"sha256","value":"${value}"}`;
  const parts = `"envelopeHash":${sha256(hashHex(envelope))},"payloadHash":${sha256(hashHex(bytes))}`;
  const signed = `"signatures":[{"signature":"${signature}","verifier":"${verifier}"}]`;
  return Buffer.from(`{"apiVersion":"0.0.1","kind":"dsse","spec":{${parts},${signed}}}`);
}

function orgIn(proposal: string): string {
  const { spec } = JSON.parse(proposal) as Proposal;
  const { payload } = JSON.parse(spec.proposedContent.envelope) as Envelope;
  return (JSON.parse(Buffer.from(payload, 'base64').toString()) as { readonly org_id: string }).org_id;
}

function uuidOf(leaf: Buffer): string {
  return TREE_ID + leafOf(leaf).toString('hex');
}

function leafOf(leaf: Buffer): Buffer {
  return hash(Buffer.of(0), leaf);
}

/** RFC 6962 §2.1, as it is written there. */
function treeOf(leaves: readonly Buffer[]): Buffer {
  const [first, ...more] = leaves;
  if (first !== undefined && more.length === 0) return leafOf(first);
  const half = halfOf(leaves.length);
  return hash(Buffer.of(1), treeOf(leaves.slice(0, half)), treeOf(leaves.slice(half)));
}

/** RFC 6962 §2.1.1. */
function pathOf(at: number, leaves: readonly Buffer[]): readonly Buffer[] {
  if (leaves.length < 2) return [];
  const half = halfOf(leaves.length);
  if (at < half) return [...pathOf(at, leaves.slice(0, half)), treeOf(leaves.slice(half))];
  return [...pathOf(at - half, leaves.slice(half)), treeOf(leaves.slice(0, half))];
}

function halfOf(count: number): number {
  let half = 1;
  while (half * 2 < count) half *= 2;
  return half;
}

function hash(...parts: readonly (string | Uint8Array)[]): Buffer {
  const sha = createHash('sha256');
  for (const part of parts) sha.update(part);
  return sha.digest();
}

function hashHex(data: string | Uint8Array): string {
  return hash(data).toString('hex');
}
