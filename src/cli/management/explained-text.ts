/*
 * Why a call was decided as it was, for people: the verdict, what would change it, then the rules by layer with the
 * tests of each.
 */
import { isJsonObject } from '../../base/json/json-object.ts';
import type { ExplainedRecord } from '../../operations/management/record-explain-operations.ts';
import { KINDS, OUTCOMES } from '../../policy-tools/render-explanation.ts';
import { brokenAtBlanks } from '../folded-text.ts';
import { terminalText } from '../terminal-text.ts';

/**
 * Of an answer, which says nothing of layers by their codes, and of a record, which does not keep all that rules read.
 */
const KIND_WORDS = { ...KINDS, empty: 'no rules: denies everything' };
const OUTCOME_WORDS = { ...OUTCOMES, unknown: 'cannot be said: it reads what records do not keep' };
const BECAUSE: Readonly<Record<NonNullable<ExplainedRecord['because']>, string>> = {
  after_the_rules: 'The rules let it run; a check behind them (caps, buckets, credentials, the way to the provider) refused it.',
  other_rules: 'Other rules took part when it was decided than do now.',
  not_asked: 'The rules were not asked about it.',
};

/**
 * The answer of `mgmt.records.explain`.
 * @param width of the terminal in cells; undefined: it is none, and no line is broken
 */
export function explainedText(answer: unknown, width: number | undefined): string | undefined {
  if (!isJsonObject(answer) || !Array.isArray(answer['rules']) || !Array.isArray(answer['layers'])) return undefined;
  const explained = answer as ExplainedRecord;
  const text = (line: string, indent = ''): readonly string[] =>
    (width === undefined ? [terminalText(line)] : brokenAtBlanks(terminalText(line), width - indent.length)).map((part) => indent + part);
  const lines = [
    ...text(headOf(explained)),
    ...meaningsOf(explained).flatMap((line) => text(line, '  ')),
    ...policyOf(explained).flatMap((line) => text(line)),
  ];
  const { would_let_it_through: ways, not_known: unknown = [] } = explained;
  if (ways.length > 0) lines.push('', 'What would let it through:', ...ways.flatMap((way) => text(way, '  ')));
  if (unknown.length > 0) lines.push('', 'No record holds, and it could change the verdict:', ...unknown.flatMap((one) => text(one, '  ')));
  for (const layer of explained.layers) lines.push('', ...text(layerText(layer)), ...rulesText(explained, layer.layer, text));
  if (explained.more_rules > 0) lines.push('', `${explained.more_rules} more rules took no part; --json does not show them either`);
  return `${lines.join('\n')}\n`;
}

function headOf({ decision, reason, reason_codes: codes }: ExplainedRecord): string {
  const shown = codes.length === 0 ? '' : ` [${codes.map(({ code }) => code).join(', ')}]`;
  return `${decision}${shown}${reason === undefined ? '' : `: ${reason}`}`;
}

function meaningsOf({ reason_codes: codes }: ExplainedRecord): readonly string[] {
  return codes.flatMap(({ code, meaning }) => (meaning === undefined ? [] : [`${code}: ${meaning}`]));
}

function policyOf({ record_id: id, decided_by: by, judged_by: judged, decides_now: now, because }: ExplainedRecord): readonly string[] {
  const lines = [`record ${id}${by === undefined ? '' : `, decided by bundle ${by.bundle_id}, version ${by.version}`}`];
  if (because !== undefined) lines.push(BECAUSE[because]);
  if (judged?.same === false)
    lines.push(`The rules below are of bundle ${judged.bundle_id}, version ${judged.version}, which is in force now.`);
  if (now !== undefined && !now.certain) lines.push('A rule that may refuse reads what records do not keep: the verdict is not certain.');
  if (now !== undefined && judged?.same !== true) {
    lines.push(`Today the rules say ${now.decision}${now.reason_codes.length === 0 ? '' : ` [${now.reason_codes.join(', ')}]`}.`);
  }
  return lines;
}

function layerText({ layer, kind, decision, code, stopped }: ExplainedRecord['layers'][number]): string {
  const byItself = code === null ? '' : ` by the layer itself [${code}]`;
  return `${layer} (${KIND_WORDS[kind]}): ${decision ?? 'no opinion'}${byItself}${stopped ? ', evaluation stopped here' : ''}`;
}

function rulesText(
  { rules }: ExplainedRecord,
  layer: string,
  text: (line: string, indent?: string) => readonly string[],
): readonly string[] {
  const own = rules.filter(({ rule }) => rule.startsWith(`${layer}/`));
  return own.flatMap(({ rule, level, file, line, decision, outcome, tests }) => [
    ...text(
      `${outcome === 'matched' ? '+' : '-'} ${rule}${level === 'base' ? '' : `@${level}`} (${decision ?? 'effects only'}), ${file}:${line}: ${OUTCOME_WORDS[outcome]}`,
      '  ',
    ),
    ...tests.flatMap((test) => text(test, '      ')),
  ]);
}
