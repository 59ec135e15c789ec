import t from 'tap';
import { bytesOfBase64 } from '../../../src/base/lib/basic-credentials.ts';
import { readVerifyKeys } from '../../../src/base/lib/verify-keys.ts';
import { type Bearer, checkBearer, checkSent, type Sent } from '../../../src/decide/delegation/judge-chain.ts';
import { DelegationError } from '../../../src/decide/delegation/link.ts';
import { verifyChain } from '../../../src/decide/delegation/verify-chain.ts';
import { encoded, fields, ISSUED, Issuer, type Token } from './delegation-tokens.ts';

const issuer = new Issuer('a');
const stranger = new Issuer('b');
const keys = readVerifyKeys(`a=${issuer.publicKey}`);
const HOUR = 3_600_000;

const codeOf = (act: () => unknown): string => {
  try {
    act();
    return 'holds';
  } catch (error) {
    if (error instanceof DelegationError) return error.code;
    throw error;
  }
};
const verified = (text: string): string => codeOf(() => verifyChain(text, keys));
const child = (parent: Token, more: Token = {}): Token => fields({ delegation_id: 'child', parent: issuer.signed(parent), ...more });
const base64 = (text: string): string => Buffer.from(text, 'utf8').toString('base64');

t.test('a token and a chain of three hold, however their base64 is written', async (t) => {
  const text = issuer.text(child(child(fields()), { delegation_id: 'leaf' }));
  const chain = verifyChain(text, keys);
  t.strictSame(
    [chain.depth, chain.leaf.delegationId, chain.links.map((link) => link.delegationId)],
    [3, 'leaf', ['root', 'child', 'leaf']],
  );
  for (const form of [text.replace(/=+$/, ''), Buffer.from(text, 'base64').toString('base64url')]) t.equal(verified(form), 'holds');
});

t.test('what is not one reading of one signed object is malformed', async (t) => {
  const good = JSON.stringify(issuer.signed(fields()));
  const table: Record<string, string> = {
    'no text': '',
    'no base64': '%%%%',
    'two alphabets': '+_==',
    'bytes behind it': base64(`${good}x`),
    'a second object': base64(`${good}{}`),
    'a list': base64(`[${good}]`),
    'a name twice': base64(good.replace('{', '{"org_id":"o",')),
    'a name twice, escaped': base64(good.replace('{', '{"org\\u005fid":"o",')),
    'a name twice in sig': base64(good.replace('"sig":{', '"sig":{"kid":"a",')),
    'a lone surrogate': base64(good.replace('{', '{"x":"\\ud800",')),
    'a lone surrogate in a name': base64(good.replace('{', '{"\\ud800":1,')),
    'an integer beyond 2^53': base64(good.replace('{', '{"x":9007199254740993,')),
    'a byte order mark': base64(`\ufeff${good}`),
    'bytes that are no UTF-8': Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]).toString('base64'),
    'too many levels': base64(good.replace('{', `{"x":${'['.repeat(17)}${']'.repeat(17)},`)),
    'too many bytes': issuer.text(fields({ x: 'x'.repeat(16_384) })),
    'no signature': encoded(fields()),
    'a signature that is short': encoded({ ...fields(), sig: { alg: 'ed25519', kid: 'a', sig: 'AAAA' } }),
    'another algorithm': encoded({ ...issuer.signed(fields()), sig: { alg: 'none', kid: 'a', sig: '' } }),
    'another schema': issuer.text(fields({ schema: 'gw.delegation.v1' })),
    'a parent that is a text': issuer.text(fields({ parent: 'x' })),
    'a scope that is a list': issuer.text(fields({ scope: [] })),
    'a scope with another member': issuer.text(fields({ scope: { hosts_allow: [] } })),
    'a budget with another member': issuer.text(fields({ budget: { usd: '1' } })),
    'an amount that is a number': issuer.text(fields({ budget: { usd_max: 1 } })),
    'an amount below nothing': issuer.text(fields({ budget: { usd_max: '-1' } })),
    'a list of numbers': issuer.text(fields({ scope: { actions_allow: [1] } })),
    'a pattern with two stars': issuer.text(fields({ scope: { resource_patterns_allow: ['/v1/**'] } })),
    'a time that is a number': issuer.text(fields({ expires_at: 1 })),
    'a chain with one id twice': issuer.text(child(fields(), { delegation_id: 'root' })),
    'a depth that is not so': issuer.text(child(fields(), { depth: 1 })),
    'a depth of nothing': issuer.text(fields({ depth: 0 })),
  };
  for (const name of ['delegation_id', 'org_id', 'workload_id', 'issued_at', 'expires_at']) {
    table[`no ${name}`] = issuer.text(fields({ [name]: undefined }));
  }
  for (const [name, text] of Object.entries(table)) t.equal(verified(text), 'delegation_malformed', name);
});

t.test('base64 has one spelling', async (t) => {
  t.strictSame(
    ['QQ==', 'QQ', 'QR==', 'QQ=', 'Q'].map((text) => bytesOfBase64(text)?.toString()),
    ['A', 'A', undefined, undefined, undefined],
  );
});

t.test('every link is signed by a key that is known, under its own name', async (t) => {
  t.equal(verified(stranger.text(fields())), 'delegation_unknown_key');
  const posing = { ...issuer.signed(fields()), sig: stranger.signed(fields())['sig'] };
  t.equal(verified(encoded(posing)), 'delegation_unknown_key');
  t.equal(verified(issuer.text(fields({ delegation_id: 'child', parent: stranger.signed(fields()) }))), 'delegation_unknown_key');
  const both = readVerifyKeys(`a=${issuer.publicKey},b=${stranger.publicKey}`);
  const swapped = { ...issuer.signed(fields()), sig: { ...(issuer.signed(fields())['sig'] as object), kid: 'b' } };
  t.equal(
    codeOf(() => verifyChain(encoded(swapped), both)),
    'delegation_bad_signature',
    'no other key is tried',
  );
  t.equal(
    codeOf(() => verifyChain(stranger.text(fields()), readVerifyKeys(issuer.publicKey))),
    'delegation_bad_signature',
    'an unnamed key is for every kid',
  );
});

t.test('a chain cannot be put together anew', async (t) => {
  const one = issuer.signed(child(fields()));
  const other = issuer.signed(fields({ x: 1 }));
  t.equal(verified(encoded({ ...one, parent: other })), 'delegation_bad_signature', 'another parent');
  const { parent: _, ...alone } = one;
  t.equal(verified(encoded(alone)), 'delegation_bad_signature', 'no parent');
  t.equal(verified(encoded({ ...issuer.signed(fields()), parent: other })), 'delegation_bad_signature', 'a parent for a root');
  t.equal(
    verified(encoded({ ...one, parent: { ...(one['parent'] as object), org_id: 'p' } })),
    'delegation_bad_signature',
    'a parent that is changed',
  );
});

t.test('more than three links are too deep, before any signature is looked at', async (t) => {
  const deep = { ...fields(), parent: { ...fields(), parent: { ...fields(), parent: fields() } } };
  t.equal(verified(encoded(deep)), 'delegation_depth_exceeded');
  t.equal(verified(issuer.text(fields({ depth: 4 }))), 'delegation_depth_exceeded');
  t.equal(verified(issuer.text(child(fields({ depth: 3 })))), 'delegation_depth_exceeded', 'a root that stands deeper is not lifted');
  t.equal(verifyChain(issuer.text(fields({ depth: 2 })), keys).depth, 2);
});

t.test('no link is wider than its parent, in any member', async (t) => {
  const scope = (name: string, list: readonly string[]): Token => ({ scope: { [name]: list } });
  const table: Record<string, readonly [Token, Token]> = {
    actions: [scope('actions_allow', ['ai.infer']), scope('actions_allow', ['ai.infer', 'ai.embed'])],
    targets: [scope('targets_allow', ['a.example']), scope('targets_allow', ['b.example'])],
    methods: [scope('methods_allow', ['POST']), scope('methods_allow', ['GET'])],
    patterns: [scope('resource_patterns_allow', ['/v1/a']), scope('resource_patterns_allow', ['/v1/*'])],
    'an empty list': [scope('actions_allow', []), scope('actions_allow', ['ai.infer'])],
    models: [{ budget: { allowed_models: ['m'] } }, { budget: { allowed_models: ['n'] } }],
    money: [{ budget: { usd_max: '1' } }, { budget: { usd_max: '1.000000000001' } }],
    overrides: [{ attribution: { allow_overrides: [] } }, { attribution: { allow_overrides: ['project_id'] } }],
    end: [{}, { expires_at: '2026-01-01T01:00:01Z' }],
    beginning: [{}, { issued_at: '2025-12-31T23:59:59Z' }],
    org: [{}, { org_id: 'p' }],
  };
  for (const [name, [outer, inner]] of Object.entries(table)) {
    t.equal(verified(issuer.text(child(fields(outer), inner))), 'delegation_not_attenuated', name);
    const between = child(fields(outer), { delegation_id: 'between' });
    t.equal(
      verified(issuer.text(fields({ delegation_id: 'leaf', ...inner, parent: issuer.signed(between) }))),
      'delegation_not_attenuated',
      `${name}, later`,
    );
    t.equal(verified(issuer.text(child(fields(outer), outer))), 'holds', `${name}, as wide`);
  }
});

t.test('a chain allows what all of its links allow', async (t) => {
  const root = fields({ scope: { actions_allow: ['ai.infer'], resource_patterns_allow: ['/v1/*'] }, budget: { usd_max: '2' } });
  const { limits } = verifyChain(
    issuer.text(child(root, { scope: { resource_patterns_allow: ['/v1/chat'], methods_allow: ['post'] } })),
    keys,
  );
  t.strictSame(
    [limits.actions, limits.resources, limits.methods, limits.usdMax],
    [['ai.infer'], [['v1', 'chat']], ['POST'], 2_000_000_000_000n],
  );
});

t.test('the caller, its org and the time are judged with each call', async (t) => {
  const bearer: Bearer = { now: ISSUED, orgId: 'o', workloadId: 'w', delegationId: undefined, policyBundleId: 'p1' };
  const judged = (more: Partial<Bearer>, token: Token = {}): string =>
    codeOf(() => checkBearer(verifyChain(issuer.text(fields(token)), keys), { ...bearer, ...more }));
  t.equal(judged({ delegationId: 'root' }, { policy_bundle_id: 'p1' }), 'holds');
  t.equal(judged({ now: ISSUED + HOUR - 1 }), 'holds');
  t.equal(judged({ now: ISSUED + HOUR }), 'delegation_expired');
  t.equal(judged({ now: ISSUED - 30_000 }), 'holds');
  t.equal(judged({ now: ISSUED - 30_001 }), 'delegation_not_yet_valid');
  t.equal(judged({}, { expires_at: '2026-01-01T00:00:00Z' }), 'delegation_malformed');
  t.equal(judged({ orgId: 'p' }), 'delegation_org_mismatch');
  t.equal(judged({ workloadId: 'v' }), 'delegation_workload_mismatch');
  t.equal(judged({ delegationId: 'other' }), 'delegation_malformed');
  t.equal(judged({ policyBundleId: 'p2' }, { policy_bundle_id: 'p1' }), 'delegation_bundle_mismatch');
  const pins = verifyChain(issuer.text(child(fields({ policy_bundle_id: 'p2' }), { policy_bundle_id: 'p1' })), keys);
  t.equal(
    codeOf(() => checkBearer(pins, bearer)),
    'delegation_bundle_mismatch',
    'two pins',
  );
  const others = verifyChain(issuer.text(child(fields({ workload_id: 'v' }))), keys);
  t.equal(
    codeOf(() => checkBearer(others, bearer)),
    'holds',
    'a parent may be another workload of the org',
  );
});

t.test('what is sent is within the scope', async (t) => {
  const call: Sent = { actionType: 'ai.infer', method: 'POST', host: 'api.example', path: '/v1/chat/completions?x=/', model: 'm' };
  const judged = (token: Token, more: Partial<Sent> = {}): string =>
    codeOf(() => checkSent(verifyChain(issuer.text(fields(token)), keys), { ...call, ...more }));
  const patterns = { scope: { resource_patterns_allow: ['/v1/chat/*'] } };
  t.equal(judged({}), 'holds');
  t.equal(judged({ scope: { methods_allow: ['post'], targets_allow: ['API.example.'], actions_allow: ['ai.infer'] } }), 'holds');
  t.equal(judged({ scope: { methods_allow: [] } }), 'delegation_method_not_allowed');
  t.equal(judged({ scope: { actions_allow: ['ai.embed'] } }), 'delegation_action_not_allowed');
  t.equal(judged({ scope: { targets_allow: ['other.example'] } }), 'delegation_target_not_allowed');
  t.equal(judged({ budget: { allowed_models: ['n'] } }), 'delegation_model_not_allowed');
  t.equal(judged({ budget: { allowed_models: ['m'] } }, { model: undefined }), 'delegation_model_not_allowed');
  for (const path of ['/v1/chat/a', '/v1/chat/%61']) t.equal(judged(patterns, { path }), 'holds', path);
  const outside = [
    '/v1/chat',
    '/v1/chat/',
    '/v1/chat/a/b',
    '/v1//chat/a',
    '/v1/chat/..',
    '/v1/chat/%2e%2E',
    '/v1/chat/a%2fb',
    '/v1/chat/a%5cb',
    '/v1/chat/%zz',
    '*',
    '/',
  ];
  for (const path of outside) t.equal(judged(patterns, { path }), 'delegation_resource_not_allowed', path);
});

t.test('keys are PEM, base64 or hex, alone or by name', async (t) => {
  const raw = Buffer.from(issuer.publicKey, 'base64');
  const pem = `-----BEGIN PUBLIC KEY-----\n${Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), raw]).toString('base64')}\n-----END PUBLIC KEY-----\n`;
  for (const one of [issuer.publicKey, raw.toString('hex'), raw.toString('base64url'), pem]) {
    for (const text of [one, `a=${one}`, ` b=${stranger.publicKey} , a=${one} `]) {
      t.equal(
        codeOf(() => verifyChain(issuer.text(fields()), readVerifyKeys(text))),
        'holds',
      );
    }
  }
  for (const text of ['', 'x', 'a=x', `=${issuer.publicKey}`, `a=${issuer.publicKey},`, `a=${issuer.publicKey},a=${stranger.publicKey}`]) {
    t.throws(() => readVerifyKeys(text), RangeError, text);
  }
});

// Holds: delegation-narrows
t.test('no change of one byte of the JSON of a chain holds, but in what is not signed', async (t) => {
  const good = Buffer.from(issuer.text(child(fields({ budget: { usd_max: '1' } }), { budget: { usd_max: '0.5' } })), 'base64');
  let held = 0;
  for (let at = 0; at < good.length; at++) {
    for (const flip of [0x01, 0x20, 0x80]) {
      const changed = Buffer.from(good);
      changed.writeUInt8(changed.readUInt8(at) ^ flip, at);
      if (verified(changed.toString('base64')) === 'holds') held++;
    }
  }
  t.equal(held, 0);
});
