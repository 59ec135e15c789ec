import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { parseSafeJsonText } from '../../base/json/safe-json.ts';
import { readRegularFile } from '../../base/lib/file-system.ts';
import { nextTurn } from '../../base/lib/loop-turns.ts';
import { decodeUtf8 } from '../../base/lib/text.ts';
import { POLICY_BOUNDS } from '../../base/model/work-bounds.ts';
import type { PolicyText } from '../../decide/policy/bundle.ts';
import type { CompiledPolicy } from '../../decide/policy/compiled.ts';
import type { Facts } from '../../decide/policy/facts.ts';
import type { CallMeaning, ReadCall } from '../../decide/policy/given-facts.ts';
import { readSuite, type SuiteCase } from '../../decide/policy/suite.ts';
import { type Mismatch, mismatches, shownVerdict, verdictOf } from '../../decide/policy/suite-case.ts';
import { PolicyComparison, type PolicyDiff } from '../../policy-tools/diff.ts';
import type { Store } from '../../storage/contract/store.ts';

/** Records that are read in one go. */
const AT_ONCE = 50;
/** Most bytes of a text whose characters are bounded by {@link POLICY_BOUNDS}. */
const BYTES_OF_CHARACTER = 3;

/** What a case came to. */
export interface CaseOutcome {
  readonly name: string;
  /** In its suite, from 1. */
  readonly line: number;
  readonly mismatches: readonly Mismatch[];
  /** As cases write it. */
  readonly verdict: Readonly<Record<string, unknown>>;
}

/**
 * Whether a case says itself which rules decide it; such a one is about them, and not about the policy of a gateway.
 */
export function bringsPolicy({ policy }: SuiteCase): boolean {
  return Object.keys(policy).some((name) => name !== 'tier');
}

/** Judges cases by a policy, one in a turn of the event loop. */
export async function runCases(cases: readonly SuiteCase[], policy: CompiledPolicy): Promise<readonly CaseOutcome[]> {
  const outcomes: CaseOutcome[] = [];
  for (const one of cases) {
    await nextTurn();
    const { name, line } = one;
    outcomes.push({ name, line, mismatches: mismatches(one, { policy }), verdict: shownVerdict(verdictOf(one, policy)) });
  }
  return outcomes;
}

/** The suites of a policies folder (`tests/`), within {@link POLICY_BOUNDS}; what is longer is left out. */
export async function readSuites(dir: string): Promise<readonly PolicyText[]> {
  const { testCases, testText } = POLICY_BOUNDS;
  const names = await readdir(join(dir, 'tests')).catch((): string[] => []);
  const suites: PolicyText[] = [];
  for (const name of names.filter((one) => /^[^.].*\.ya?ml$/.test(one)).sort()) {
    if (suites.length === testCases.one) break;
    const bytes = await readRegularFile(join(dir, 'tests', name), testText.one * BYTES_OF_CHARACTER).catch(() => undefined);
    const text = bytes && decodeUtf8(bytes);
    if (typeof text === 'string' && text.length <= testText.one) suites.push({ text, file: `tests/${name}` });
  }
  return suites;
}

/** What the suites of a folder say of a change. */
export interface SuitesOutcome {
  readonly cases: number;
  /** Cases that hold now and would not with the change. */
  readonly broken: readonly { readonly suite: string; readonly name: string; readonly mismatches: readonly Mismatch[] }[];
  /** Cases that hold neither before nor after. */
  readonly failing_before: number;
}

/**
 * Judges the cases of a folder's suites by a policy and by the one that would follow; at most as many as {@link
 * POLICY_BOUNDS} say.
 */
export async function compareSuites(
  suites: readonly PolicyText[],
  before: CompiledPolicy,
  after: CompiledPolicy,
  meaning: CallMeaning,
): Promise<SuitesOutcome> {
  let left: number = POLICY_BOUNDS.testCases.one;
  let failingBefore = 0;
  const broken: { suite: string; name: string; mismatches: readonly Mismatch[] }[] = [];
  for (const file of suites) {
    await nextTurn();
    const cases = (readSuite(file, { meaning }).suite?.cases ?? []).filter((one) => !bringsPolicy(one)).slice(0, left);
    left -= cases.length;
    const was = await runCases(cases, before);
    for (const [i, { name, mismatches: wrong }] of (await runCases(cases, after)).entries()) {
      if (wrong.length === 0) continue;
      if (was[i]?.mismatches.length === 0) broken.push({ suite: file.file, name, mismatches: wrong });
      else failingBefore++;
    }
  }
  return { cases: POLICY_BOUNDS.testCases.one - left, broken, failing_before: failingBefore };
}

/**
 * Replays the newest records of an org, or of all, against two policies; at most as many as {@link POLICY_BOUNDS} say,
 * one in a turn of the event loop.
 */
export async function replayRecent(
  store: Pick<Store, 'records'>,
  orgId: string | undefined,
  { before, after }: { readonly before: CompiledPolicy; readonly after: CompiledPolicy },
  readingOf: (facts: Facts) => ReadCall,
): Promise<PolicyDiff> {
  const comparison = new PolicyComparison(before, after, readingOf);
  let position: string | undefined;
  for (let left: number = POLICY_BOUNDS.replayed.one; left > 0; ) {
    const limit = Math.min(AT_ONCE, left);
    const page = await store.records({
      ...(orgId === undefined ? {} : { org_id: orgId }),
      ...(position === undefined ? {} : { after: position }),
      limit,
      newestFirst: true,
    });
    for (const { text } of page) {
      await nextTurn();
      comparison.add(parseSafeJsonText(text, { malformed: 'invalid_request' }).value as Readonly<Record<string, unknown>>);
    }
    left -= limit;
    position = page.at(-1)?.position;
    if (page.length < limit) break;
  }
  return comparison.result();
}
