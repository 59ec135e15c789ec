import { randomBytes, type X509Certificate } from 'node:crypto';
import { type MerkleRoot, rootDigest } from '../../ledger/merkle-root.ts';
import { checkTimeStamp } from '../../ledger/time-stamp-signer.ts';
import { hexOfNumber, timeStampRequest, tokenOfAnswer } from '../../ledger/time-stamp-token.ts';
import { AnchoredRoots, type AnchoredRootsOptions, type RootAnchor } from './anchored-roots.ts';
import { SPACE } from './control-plane-spaces.ts';

const NONCE_BYTES = 8;
const WORDS = {
  failed: 'no time stamp was made; it is tried again, and roots go on',
  answersAgain: 'the time-stamp authority (CP_TSA_URL) answers again',
  broken: 'time stamps could not be stored',
};

/** That a root was there at a time, as an authority says (decision 13.17). */
export interface RootTimestamp extends RootAnchor {
  /** RFC 3161, DER in base64. */
  readonly token: string;
}

export interface TimeStampAuthority {
  /** DER of a request, DER of an answer. */
  readonly ask: (request: Uint8Array, signal: AbortSignal) => Promise<Buffer>;
  /** Milliseconds between two stamps of one org. */
  readonly intervalMs: number;
  /** Whose stamps are taken; undefined: of whoever answers. */
  readonly trusted: readonly X509Certificate[] | undefined;
}

export type OrgTimestamps = AnchoredRoots<RootTimestamp>;

/**
 * Has the newest root of each org stamped by an authority.
 * @param authority undefined: none is asked @param newestRoots of orgs, as the store has them
 */
export function openTimestamps(
  ground: Pick<AnchoredRootsOptions<RootTimestamp>, 'store' | 'clock' | 'log'>,
  authority: TimeStampAuthority | undefined,
  newestRoots: AsyncIterable<MerkleRoot>,
): Promise<OrgTimestamps> {
  const anchoring = authority && {
    intervalMs: authority.intervalMs,
    anchor: (root: MerkleRoot, signal: AbortSignal) => stamp(root, authority, signal),
    // An authority does not know whose imprint it stamps.
    isOfOne: () => false,
  };
  const spaces = { anchors: SPACE.timestamps, heads: SPACE.timestampHeads };
  return AnchoredRoots.open({ ...ground, spaces, anchoring, words: WORDS }, newestRoots);
}

async function stamp(root: MerkleRoot, { ask, trusted }: TimeStampAuthority, signal: AbortSignal): Promise<RootTimestamp> {
  const imprint = rootDigest(root);
  const nonce = randomBytes(NONCE_BYTES);
  const token = tokenOfAnswer(await ask(timeStampRequest(Buffer.from(imprint, 'hex'), nonce), signal));
  const { time } = checkTimeStamp(token, { imprint, nonce: hexOfNumber(nonce), trusted });
  return { sequence: root.sequence, time, token: token.toString('base64') };
}
