import { isIP } from 'node:net';
import { addressBytes } from './certificate.ts';
import { content, type Der, isTagged, members } from './der.ts';

/** Subtrees of one side of the extension, by the kinds that a leaf of ours is measured by. */
interface Subtrees {
  readonly names: readonly string[];
  /** Address and mask. */
  readonly addresses: readonly (readonly [address: Buffer, mask: Buffer])[];
}

/** For which hosts an authority may sign (RFC 5280 §4.2.1.10). */
export interface NameConstraints {
  readonly permitted: Subtrees;
  readonly excluded: Subtrees;
  /** It also limits what the subject of a leaf may say, which ours says of its own. */
  readonly limitsSubjects: boolean;
}

const DIRECTORY_NAME = 4;
const DNS_NAME = 2;
const IP_ADDRESS = 7;

export function readNameConstraints(extension: Der): NameConstraints {
  const side = (tag: number): readonly Der[] =>
    members(members(extension).find((part) => isTagged(part, tag))).flatMap((subtree) => members(subtree).slice(0, 1));
  const [permitted, excluded] = [side(0), side(1)];
  return {
    permitted: subtrees(permitted),
    excluded: subtrees(excluded),
    limitsSubjects: [...permitted, ...excluded].some((name) => isTagged(name, DIRECTORY_NAME)),
  };
}

/** @param host folded by decision 3.17: an ASCII name, or an IP literal without brackets */
export function permits({ permitted, excluded }: NameConstraints, host: string): boolean {
  if (isIP(host) === 0) {
    if (excluded.names.some((base) => isWithin(host, base))) return false;
    return permitted.names.length === 0 || permitted.names.some((base) => isWithin(host, base));
  }
  const address = addressBytes(host);
  const covers = ([base, mask]: Subtrees['addresses'][number]): boolean =>
    base.length === address.length && address.every((byte, i) => (byte & (mask[i] ?? 0)) === ((base[i] ?? 0) & (mask[i] ?? 0)));
  if (excluded.addresses.some(covers)) return false;
  return permitted.addresses.length === 0 || permitted.addresses.some(covers);
}

function subtrees(names: readonly Der[]): Subtrees {
  return {
    names: names.filter((name) => isTagged(name, DNS_NAME)).map((name) => content(name).toString('latin1').toLowerCase()),
    addresses: names
      .filter((name) => isTagged(name, IP_ADDRESS))
      .map((name) => {
        const bytes = content(name);
        return [bytes.subarray(0, bytes.length / 2), bytes.subarray(bytes.length / 2)] as const;
      }),
  };
}

/** A leading dot is no form of the RFC; verifiers that know it take it for names below, without the name itself. */
function isWithin(host: string, base: string): boolean {
  if (base === '') return true;
  return base.startsWith('.') ? host.endsWith(base) : host === base || host.endsWith(`.${base}`);
}
