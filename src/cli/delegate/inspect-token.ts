import { shellVariable } from '../../base/config/settings-reader.ts';
import { systemClock, timestamp } from '../../base/lib/clock.ts';
import { messageOf } from '../../base/lib/gateway-error.ts';
import { usdFromPico } from '../../base/lib/money.ts';
import { readVerifyKeys, type VerifyKeys } from '../../base/lib/verify-keys.ts';
import type { DelegationLink, Limits } from '../../decide/delegation/link.ts';
import { DelegationError } from '../../decide/delegation/link.ts';
import { type DelegationChain, readChain, verifyChain } from '../../decide/delegation/verify-chain.ts';
import { parseWithOne } from '../checked-arguments.ts';
import { type Command, EXIT_NO, EXIT_OK, UsageError } from '../command.ts';
import { printJson, terminalText } from '../terminal-text.ts';
import { readToken, sound } from './token-options.ts';

const OPTIONS = { keys: { type: 'string' }, json: { type: 'boolean' } } as const;
const SETTING = 'GW_DELEGATION_VERIFY_KEY';

/** Shows what a token says, and whether it holds. */
export const inspectToken: Command = {
  name: 'delegate inspect',
  usage: 'TOKEN|FILE|- [--keys KEYS] [--json]',
  summary: `Shows what a delegation token allows and whether it holds, by --keys or ${SETTING}; exit code 0 holds, 1 not, 2 unusable.`,
  async run(args, io) {
    const { one: source, values } = parseWithOne(args, OPTIONS, 'it takes one token');
    const text = await readToken(source, io);
    const chain = sound(() => readChain(text));
    const keys = values.keys ?? shellVariable(SETTING, io.env);
    const flaws = [...signatureFlaws(text, keys), ...timeFlaws(chain, systemClock.now())];
    if (values.json === true) printJson({ holds: flaws.length === 0, flaws, ...plain(chain) }, io);
    else io.stdout(words(chain, flaws));
    return flaws.length === 0 ? EXIT_OK : EXIT_NO;
  },
};

function signatureFlaws(text: string, keys: string | undefined): readonly string[] {
  if (keys === undefined) return [`its signatures were not checked: --keys or ${SETTING} names the keys`];
  try {
    verifyChain(text, keysOf(keys));
    return [];
  } catch (error) {
    if (error instanceof DelegationError) return [`${error.message} (${error.code})`];
    throw error;
  }
}

function keysOf(text: string): VerifyKeys {
  try {
    return readVerifyKeys(text);
  } catch (error) {
    throw new UsageError(`the keys cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

function timeFlaws({ links }: DelegationChain, now: number): readonly string[] {
  return links.flatMap(({ delegationId, issuedAt, expiresAt }) => [
    ...(expiresAt <= now ? [`${delegationId} has expired at ${timestamp(expiresAt)}`] : []),
    ...(issuedAt > now ? [`${delegationId} begins at ${timestamp(issuedAt)}`] : []),
  ]);
}

/** As JSON. */
function plain({ links, depth, limits }: DelegationChain): object {
  return {
    depth,
    chain: links.map((link) => ({ ...heading(link), ...shown(link.limits), defaults: link.defaults })),
    allows: shown(limits),
  };
}

function heading({
  delegationId,
  orgId,
  workloadId,
  issuedBy,
  principalId,
  audience,
  policyBundleId,
  issuedAt,
  expiresAt,
}: DelegationLink) {
  return {
    delegation_id: delegationId,
    org_id: orgId,
    workload_id: workloadId,
    issued_by: issuedBy,
    principal_id: principalId,
    audience,
    policy_bundle_id: policyBundleId,
    issued_at: timestamp(issuedAt),
    expires_at: timestamp(expiresAt),
  };
}

function shown({ actions, targets, methods, resources, models, overrides, usdMax }: Limits): Readonly<Record<string, unknown>> {
  return {
    actions_allow: actions,
    targets_allow: targets,
    methods_allow: methods,
    resource_patterns_allow: resources?.map((segments) => `/${segments.join('/')}`),
    allowed_models: models,
    usd_max: usdMax === undefined ? undefined : usdFromPico(usdMax),
    allow_overrides: overrides,
  };
}

function words({ links, depth, limits }: DelegationChain, flaws: readonly string[]): string {
  const chain = links.map(
    (link, at) => `link ${depth - links.length + at + 1}\n${lines({ ...heading(link), ...shown(link.limits), defaults: link.defaults })}`,
  );
  const verdict =
    flaws.length === 0 ? 'It holds.\n' : `It does not hold, or nobody knows:\n${flaws.map((flaw) => `  ${terminalText(flaw)}\n`).join('')}`;
  return `${chain.join('')}what is left of the chain\n${lines(shown(limits)) || '  no limits\n'}${verdict}`;
}

function lines(members: Readonly<Record<string, unknown>>): string {
  const said = Object.entries(members).filter(([, value]) => value !== undefined && JSON.stringify(value) !== '{}');
  return said.map(([name, value]) => `  ${name.padEnd(24)} ${inWords(value)}\n`).join('');
}

function inWords(value: unknown): string {
  if (typeof value === 'string') return terminalText(value);
  return terminalText(Array.isArray(value) && value.length > 0 ? value.join(', ') : JSON.stringify(value));
}
