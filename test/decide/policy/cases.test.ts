import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parseUsd } from '../../../src/base/lib/money.ts';
import { packageRoot } from '../../../src/base/lib/package-root.ts';
import { parseYaml, toPlain } from '../../../src/base/lib/yaml.ts';
import { decide } from '../../../src/decide/policy/evaluate.ts';
import type { Facts } from '../../../src/decide/policy/facts.ts';
import type { PlanTier } from '../../../src/decide/policy/layers.ts';
import type { Verdict } from '../../../src/decide/policy/verdict.ts';
import { compileAll, someFacts } from './policy-facts.ts';

/*
 * The rule language as data: test/cases/policy/*.yaml. Each case has a bundle, facts that differ from the plain call of `someFacts`, and what is expected:
 * members that are named are compared exactly, others are not looked at. `errors` says that the bundle does not load, with exactly these mistakes.
 */
interface Case {
  readonly name: string;
  readonly bundle: string;
  readonly addons?: readonly string[];
  readonly files?: Readonly<Record<string, string>>;
  readonly org?: string;
  readonly node?: string;
  readonly tier?: PlanTier;
  /** As `PUT /v1/admin/policies` would load it. */
  readonly put?: boolean;
  /** False: with the list of what is not enforced yet. */
  readonly unsupported?: boolean;
  readonly facts?: Readonly<Record<string, unknown>>;
  /** Ids of rules whose bucket is out of tokens. */
  readonly rate_limited?: readonly string[];
  readonly expect?: Readonly<Record<string, unknown>>;
  readonly errors?: readonly Readonly<Record<string, unknown>>[];
}

const FOLDER = join(packageRoot(), 'test', 'cases', 'policy');

function compileCase(one: Case): ReturnType<typeof compileAll> {
  const named = (text: string | undefined, file: string) => (text === undefined ? undefined : { text, file });
  return compileAll(
    {
      text: one.bundle,
      tier: one.tier ?? 'enterprise',
      files: one.put ? undefined : new Map(Object.entries(one.files ?? {})),
      addons: one.put ? [] : (one.addons ?? []).map((text, i) => ({ text, file: `addons/${i + 1}.yaml` })),
      overlays: { org: named(one.org, 'overlays/org.yaml'), node: named(one.node, 'overlays/node.yaml') },
    },
    { allowUnsupported: one.unsupported ?? true },
  );
}

/** YAML has no sets and no pico-dollars. */
function factsOf({ header_names, cost_usd, ...rest }: Readonly<Record<string, unknown>>): Facts {
  const changes: Record<string, unknown> = { ...rest };
  if (Array.isArray(header_names)) changes['header_names'] = new Set(header_names);
  if (typeof cost_usd === 'string') changes['estimates'] = { tokens_in: 10, tokens_out_max: 100, cost_pico: parseUsd(cost_usd) };
  return someFacts(changes);
}

function shown(verdict: Verdict): Record<string, unknown> {
  return {
    ...verdict,
    stopped_at: verdict.stopped_at ?? null,
    reason: verdict.reason ?? null,
    matched: verdict.matched.map(
      ({ layer, rule_id, level, missing_field }) => `${layer}/${rule_id}${level === 'base' ? '' : `@${level}`}${missing_field ? '?' : ''}`,
    ),
  };
}

for (const file of readdirSync(FOLDER).filter((name) => name.endsWith('.yaml'))) {
  t.test(file, async (t) => {
    const { root, errors } = parseYaml(readFileSync(join(FOLDER, file), 'utf8'), file);
    t.same(errors, [], 'the file parses');
    const { cases } = toPlain(root) as { cases: readonly Case[] };
    t.ok(cases.length > 0, 'the file has cases');
    for (const one of cases) {
      const compiled = compileCase(one);
      if (one.errors !== undefined) {
        const found = (compiled.errors ?? []).map((error, i) => {
          const asked = Object.keys(one.errors?.[i] ?? { code: 0, line: 0, column: 0, message: 0 });
          return Object.fromEntries(Object.entries(error).filter(([name]) => asked.includes(name)));
        });
        t.strictSame(found, one.errors, `${one.name}: mistakes`);
        continue;
      }
      t.same(compiled.errors, undefined, `${one.name}: loads`);
      if (compiled.policy === undefined) continue;
      const verdict = decide(
        compiled.policy,
        factsOf(one.facts ?? {}),
        one.rate_limited && ((_layer, id) => one.rate_limited?.includes(id) === true),
      );
      const all = shown(verdict);
      const { effects, ...expected } = one.expect ?? {};
      t.ok(one.expect, `${one.name}: expects something`);
      for (const [member, value] of Object.entries(expected)) t.strictSame(all[member], value, `${one.name}: ${member}`);
      for (const [member, value] of Object.entries((effects ?? {}) as Record<string, unknown>)) {
        t.strictSame((verdict.effects as unknown as Record<string, unknown>)[member] ?? null, value, `${one.name}: effects.${member}`);
      }
    }
  });
}
