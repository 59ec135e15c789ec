/* Delegations that a running gateway honours no more (decision 9.4), asked for with the admin token. */
import { systemClock, timestamp } from '../../base/lib/clock.ts';
import type { RevokedDelegation } from '../../base/model/keys.ts';
import { readChain } from '../../decide/delegation/verify-chain.ts';
import { parseOptions, parseWithOne, parseWithWords } from '../checked-arguments.ts';
import { type CliIo, type Command, EXIT_OK, Unusable, UsageError } from '../command.ts';
import { GatewayClient, URL_OPTION } from '../gateway-client.ts';
import { listText } from '../management/answer-text.ts';
import { isUuid } from '../management/table-cells.ts';
import { JSON_OPTION, printJson, printJsonDocument, terminalText } from '../terminal-text.ts';
import { readToken, sound } from './token-options.ts';

const PATH = '/v1/admin/delegations/revoked';
const ASKING = '[--json] [--url http://HOST:PORT]';
/** Ids are at most so long, in characters; what is longer is a token. */
const MAX_ID = 128;
/** The beginning or the end of an id that `gw delegate` has made, as tables show it. */
const SHORTENED = /^(?=.*\d)[0-9a-f-]{4,35}(?:…|\.\.\.)?$/;

/** Revokes a delegation by its id, or that of a token. */
export const revokeDelegation: Command = {
  name: 'delegate revoke',
  usage: `ID|--token TOKEN|FILE|- [--reason TEXT] [--expires-at TIME] ${ASKING}`,
  summary: 'Revokes a delegation and every token that was made of it, from the next request on.',
  help: `
  ID            the delegation_id of its token: gw delegate inspect and records show it
  --token       takes the id, and the end, from the token itself
  --expires-at  when the token ends: a day later the revocation is removed, as nothing is left to refuse. Left out, it is kept
`,
  async run(args, io) {
    const options = {
      token: { type: 'string' },
      reason: { type: 'string' },
      'expires-at': { type: 'string' },
      ...JSON_OPTION,
      ...URL_OPTION,
    } as const;
    const { values, words } = parseWithWords(args, options, 1);
    const { token, reason, url, json = false, 'expires-at': end } = values;
    const given = token === undefined ? idIn(words) : await leafOf(token, words, io);
    const expires = end ?? given.expires_at;
    const body = {
      delegation_id: given.delegation_id,
      ...(reason === undefined ? {} : { reason }),
      ...(expires === undefined ? {} : { expires_at: expires }),
    };
    const gateway = await GatewayClient.open(url, io);
    const done = (await gateway.json('PUT', PATH, body)) as RevokedDelegation;
    if (json) printJson(done, io);
    else io.stdout(revokedText(done));
    return EXIT_OK;
  },
};

/** Lists what is revoked. */
export const listRevoked: Command = {
  name: 'delegate revoked',
  usage: ASKING,
  summary: 'Lists the delegations that are revoked, the newest first.',
  async run(args, io) {
    const { url, json = false } = parseOptions(args, { ...JSON_OPTION, ...URL_OPTION });
    const revoked = await revokedOf(await GatewayClient.open(url, io));
    if (json) printJsonDocument(revoked, io);
    else {
      const columns = ['delegation: delegation_id', 'revoked: revoked_at', 'token ends: expires_at', 'reason'];
      io.stdout(listText(revoked, { things: 'revoked delegations', columns, view: { width: io.columns, now: systemClock.now() } }));
    }
    return EXIT_OK;
  },
};

/** Takes a revocation back. */
export const restoreDelegation: Command = {
  name: 'delegate restore',
  usage: `ID ${ASKING}`,
  summary: 'Takes a revocation back: tokens of the delegation that have not ended hold again.',
  async run(args, io) {
    const { values, one } = parseWithOne(
      args,
      { ...JSON_OPTION, ...URL_OPTION },
      'it takes the ID of one delegation; gw delegate revoked lists them',
    );
    const gateway = await GatewayClient.open(values.url, io);
    const id = isUuid(one) ? one : await wholeDelegationId(gateway, one, io);
    await gateway.text('DELETE', `${PATH}/${encodeURIComponent(id)}`);
    if (values.json === true) printJson({ delegation_id: id, status: 'restored' }, io);
    else io.stdout(`The delegation ${terminalText(id)} is not revoked any more.\n`);
    return EXIT_OK;
  },
};

type Given = Pick<RevokedDelegation, 'delegation_id' | 'expires_at'>;

function idIn([id]: readonly string[]): Given {
  if (id === undefined) throw new UsageError('it takes the ID of a delegation, or --token with its token');
  if (id.length > MAX_ID) throw new UsageError('the ID of a delegation has at most 128 characters; --token takes a token');
  // Taken as it is it would revoke nothing, and say that it had.
  if (SHORTENED.test(id))
    throw new UsageError(
      `${terminalText(id)} is a part of an ID: give it whole, as records, gw delegate inspect and gw delegate revoked --json show it; or --token takes the token`,
    );
  return { delegation_id: id };
}

/**
 * Of the last link: what was made of it is revoked with it, what it was made of is not.
 * @throws UsageError, Unusable
 */
async function leafOf(token: string, words: readonly string[], io: CliIo): Promise<Given> {
  if (words.length > 0) throw new UsageError('it takes an ID or --token, not both');
  const text = await readToken(token, io);
  const { leaf } = sound(() => readChain(text));
  const ended = timestamp(leaf.expiresAt);
  if (leaf.expiresAt <= systemClock.now()) throw new Unusable(`the token has ended by itself, at ${ended}: there is nothing to revoke`);
  return { delegation_id: leaf.delegationId, expires_at: ended };
}

function revokedText({ delegation_id: id, expires_at: end }: RevokedDelegation): string {
  const kept =
    end === undefined ? 'It is kept until it is taken back.' : `The token ends at ${terminalText(end)}; a day later this entry is removed.`;
  return `The delegation ${terminalText(id)} is revoked, with every token that was made of it. ${kept}\n`;
}

async function revokedOf(gateway: GatewayClient): Promise<readonly RevokedDelegation[]> {
  return ((await gateway.json('GET', PATH)) as { readonly revoked: readonly RevokedDelegation[] }).revoked;
}

/** Tables at a terminal show the ends of ids. */
async function wholeDelegationId(gateway: GatewayClient, typed: string, io: CliIo): Promise<string> {
  // The operations are loaded by what needs them alone.
  const { wholeIdAmong } = await import('../management/short-ids.ts');
  return wholeIdAmong(await revokedOf(gateway), ['id: delegation_id', 'revoked: revoked_at', 'reason'], typed, io);
}
