import { systemClock, timestamp } from '../../base/lib/clock.ts';
import { uuidv7 } from '../../base/lib/ids.ts';
import { isKid } from '../../base/lib/verify-keys.ts';
import { objectOfToken } from '../../decide/delegation/token-text.ts';
import { DELEGATION_SCHEMA, readChain } from '../../decide/delegation/verify-chain.ts';
import { parseOptions } from '../checked-arguments.ts';
import { type CliIo, type Command, EXIT_OK, Unusable, UsageError } from '../command.ts';
import { JSON_OPTION, printJson } from '../terminal-text.ts';
import { SigningKey } from './signing-key.ts';
import { expiryOf, givenFields, readToken, sound, TOKEN_USAGE, type TokenOptions, tokenOptions } from './token-options.ts';

const KEY_OPTIONS = { out: { type: 'string' }, kid: { type: 'string' }, ...JSON_OPTION } as const;
const USUAL_LIFE = '1h';

/** Makes a key pair for the issuer of delegation tokens. */
export const makeKey: Command = {
  name: 'delegate keygen',
  usage: '--out FILE [--kid NAME] [--json]',
  summary: 'Makes a private Ed25519 key in a new file (mode 0600), and prints the public one as GW_DELEGATION_VERIFY_KEY takes it.',
  async run(args, io) {
    const { out, kid, json = false } = parseOptions(args, KEY_OPTIONS);
    if (out === undefined) throw new UsageError('--out names the file of the private key');
    const key = SigningKey.make();
    const name = kidOf(kid, key);
    await key.write(out);
    if (json) printJson({ file: out, kid: name, public_key: key.publicKey, verify_key: `${name}=${key.publicKey}` }, io);
    else io.stdout(`GW_DELEGATION_VERIFY_KEY=${name}=${key.publicKey}\n`);
    return EXIT_OK;
  },
};

/** Makes a delegation token. */
export const issueToken: Command = {
  name: 'delegate issue',
  usage: `--key FILE [--kid NAME] --org ID --workload ID ${TOKEN_USAGE}`,
  summary: 'Makes a delegation token and prints it; good for an hour unless --expires says otherwise.',
  async run(args, io) {
    const options = tokenOptions(args);
    if (options.parent !== undefined) throw new UsageError('gw delegate attenuate makes a token of another');
    const { key, kid } = await keyOf(options);
    const now = systemClock.now();
    const fields = await givenFields(options, io);
    const expires = options.expires ?? (fields['expires_at'] === undefined ? USUAL_LIFE : undefined);
    const token = {
      delegation_id: uuidv7(now),
      ...fields,
      schema: DELEGATION_SCHEMA,
      issued_at: timestamp(now),
      ...(expires === undefined ? {} : { expires_at: expiryOf(expires, now) }),
    };
    return print(key.token(token, kid), now, options, io);
  },
};

/** Makes a narrower token of one. */
export const attenuateToken: Command = {
  name: 'delegate attenuate',
  usage: `--key FILE [--kid NAME] --parent TOKEN|FILE|- [--workload ID] ${TOKEN_USAGE}`,
  summary: 'Makes a token that is narrower than its parent and prints it; what is not given it has from its parent.',
  async run(args, io) {
    const options = tokenOptions(args);
    if (options.parent === undefined) throw new UsageError('--parent names the token that this one is made of');
    const { key, kid } = await keyOf(options);
    const now = systemClock.now();
    const text = await readToken(options.parent, io);
    const parent = sound(() => objectOfToken(text));
    const { org_id, workload_id, expires_at } = parent;
    const fields = await givenFields(options, io);
    const token = {
      delegation_id: uuidv7(now),
      org_id,
      workload_id,
      expires_at,
      ...fields,
      schema: DELEGATION_SCHEMA,
      issued_at: timestamp(now),
      ...(options.expires === undefined ? {} : { expires_at: expiryOf(options.expires, now) }),
      parent,
    };
    return print(key.token(token, kid), now, options, io);
  },
};

/** As a gateway would read it, signatures aside. @throws Unusable */
function print(text: string, now: number, { json = false }: TokenOptions, io: CliIo): number {
  const { leaf, depth } = sound(() => readChain(text));
  if (leaf.expiresAt <= now) throw new Unusable(`the token would end at ${timestamp(leaf.expiresAt)}, which has passed`);
  const { delegationId: delegation_id, orgId: org_id, workloadId: workload_id, expiresAt } = leaf;
  if (json) printJson({ token: text, delegation_id, org_id, workload_id, depth, expires_at: timestamp(expiresAt) }, io);
  else io.stdout(`${text}\n`);
  return EXIT_OK;
}

async function keyOf({ key: file, kid }: TokenOptions): Promise<{ key: SigningKey; kid: string }> {
  if (file === undefined) throw new UsageError('--key names the file of the private key; gw delegate keygen makes one');
  const key = await SigningKey.read(file);
  return { key, kid: kidOf(kid, key) };
}

function kidOf(given: string | undefined, key: SigningKey): string {
  if (given !== undefined && !isKid(given)) throw new UsageError('--kid takes 1 to 128 letters, digits, dots, dashes and underscores');
  return given ?? key.kid;
}
