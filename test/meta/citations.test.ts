/*
 * Comments, tests and documents cite decisions by number, the interface by heading and the semantics of policy by rule.
 * Every citation must lead to its place in docs/decisions and docs/interface. How they are written is said in
 * docs/decisions/README.md.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';

const root = packageRoot();

// The words that make a citation are put together here, so that this file cites nothing that is not there.
const DECISION = ['decis', 'ion'].join('');
const DECISIONS = `${DECISION}s`;
const SPEC = ['specifica', 'tion'].join('');
const POLICY = ['policy', 'md'].join('.');

interface SourceFile {
  readonly file: string;
  readonly text: string;
}

/** What is wrong with a citation. Where it stands is told, but is no part of what it is. */
interface Unresolved {
  readonly file: string;
  readonly line: number;
  readonly cited: string;
}

function filesBelow(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true, encoding: 'utf8' })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1));
}

/** All that can cite: everything but binary files, which hold a NUL. */
function citingFiles(): SourceFile[] {
  const documents = readdirSync(root).filter((name) => name.endsWith('.md'));
  const below = ['src', 'test', 'bench', 'scripts', 'policies', 'docs', 'systemd', 'ca', '.ci'].flatMap(filesBelow);
  return [...documents, ...below]
    .map((file) => ({ file, text: readFileSync(join(root, file), 'utf8') }))
    .filter(({ text }) => !text.includes('\0'));
}

interface Heading {
  readonly level: number;
  readonly text: string;
  /** What stands below it, up to the next heading of its level. */
  readonly body: string;
}

/** Headings of a Markdown text, without those in code blocks. */
function headingsOf(markdown: string): Heading[] {
  const text = markdown.replace(/^```[\s\S]*?^```/gm, (block) => block.replace(/[^\n]/g, ' '));
  const found = [...text.matchAll(/^(#{1,6}) +(.+)$/gm)];
  return found.map((match, at) => {
    const level = match[1]?.length ?? 0;
    const next = found.slice(at + 1).find((other) => (other[1]?.length ?? 0) <= level);
    return { level, text: (match[2] ?? '').trim(), body: text.slice(match.index, next?.index) };
  });
}

/** A heading as citations name it: without marks of code, in lower case. */
function plain(heading: string): string {
  return heading.replaceAll('`', '').trim().toLowerCase();
}

/** The numbers of the items of an ordered list that stands below a heading. */
function itemsOf(body: string): ReadonlySet<string> {
  return new Set([...body.matchAll(/^(\d+)\. /gm)].map((match) => match[1] ?? ''));
}

/** The places that a citation can lead to. */
interface Places {
  /** `6.8`, and `6` for the page of a section. */
  readonly decisions: ReadonlySet<string>;
  /** Headings of the interface, with the numbers of their lists. */
  readonly headings: ReadonlyMap<string, ReadonlySet<string>>;
  readonly rules: ReadonlySet<string>;
  readonly policyHeadings: ReadonlySet<string>;
}

function documentsBelow(folder: string): SourceFile[] {
  return filesBelow(folder)
    .filter((file) => file.endsWith('.md'))
    .map((file) => ({ file, text: readFileSync(join(root, file), 'utf8') }));
}

const POLICY_PAGE = join('docs', 'interface', 'policy.md');

/** Numbers at the beginning of headings: `6.8` of `### 6.8 An intent …`, `9` of `### 9. One rule …`. */
function numbersOf(headings: readonly Heading[], pattern: RegExp): string[] {
  return headings.flatMap(({ text }) => pattern.exec(text)?.[1] ?? []);
}

function decisionNumbers(): string[] {
  return documentsBelow('docs/decisions').flatMap(({ text }) => numbersOf(headingsOf(text), /^(\d+(?:\.\d+)?)\.? /));
}

function placesOf(): Places {
  const interfacePages = documentsBelow('docs/interface').filter(({ file }) => file !== POLICY_PAGE);
  const policy = headingsOf(readFileSync(join(root, POLICY_PAGE), 'utf8'));
  return {
    decisions: new Set(decisionNumbers()),
    headings: new Map(interfacePages.flatMap(({ text }) => headingsOf(text)).map(({ text, body }) => [plain(text), itemsOf(body)])),
    rules: new Set(numbersOf(policy, /^(\d+)\. /)),
    policyHeadings: new Set(policy.map(({ text }) => plain(text))),
  };
}

const NUMBERS = /^(?:[1-9]\d*|L\d+)(?:\.\d+)?/;
/** A list goes on by a comma, `and` or `to`, when a number follows. */
const SEPARATOR = /^(?:, and |, | and | to )(?=(?:section |)[1-9])/;

/**
 * Reads `3.7, 3.8`, `3.16 to 3.18`, `section 2 and 5.6`, `head`: the places that are named, and how long the text is.
 * @param text what stands behind the word that says what is cited
 */
function listOf(text: string): { readonly names: readonly string[]; readonly length: number } {
  const names: string[] = [];
  let at = 0;
  let joined = '';
  for (;;) {
    const section = /^section /.exec(text.slice(at))?.[0].length ?? 0;
    const name = NUMBERS.exec(text.slice(at + section))?.[0];
    if (name === undefined) break;
    if (joined === ' to ') names.push(...between(names.at(-1) ?? '', name));
    names.push(name);
    at += section + name.length;
    const next = SEPARATOR.exec(text.slice(at))?.[0];
    if (next === undefined) break;
    joined = next;
    at += next.length;
  }
  return { names, length: at };
}

/**
 * The numbers between two of one section, both left out; backwards or across sections it is no range, and leads
 * nowhere.
 */
function between(from: string, to: string): string[] {
  const [fromSection = '', fromLast] = from.split('.');
  const [toSection = '', toLast] = to.split('.');
  const first = Number(fromLast ?? fromSection);
  const last = Number(toLast ?? toSection);
  const isRange =
    (fromLast === undefined) === (toLast === undefined) && (fromLast === undefined || fromSection === toSection) && first < last;
  if (!isRange) return [`${from} to ${to}`];
  const prefix = fromLast === undefined ? '' : `${fromSection}.`;
  return Array.from({ length: last - first - 1 }, (_, i) => `${prefix}${first + 1 + i}`);
}

interface Found {
  readonly at: number;
  readonly cited: string;
  readonly resolved: boolean;
}

function* citedDecisions(text: string, places: Places): Generator<Found> {
  for (const match of text.matchAll(/\b[Dd]ecisions?\b,? +(?=section\b|head\b|L?\d)/g)) {
    const rest = text.slice(match.index + match[0].length);
    const { names, length } = listOf(rest);
    const isHead = rest.startsWith('head');
    const cited = match[0] + (isHead ? 'head' : rest.slice(0, Math.max(length, 12)));
    yield { at: match.index, cited, resolved: isHead || (names.length > 0 && names.every((name) => places.decisions.has(name))) };
  }
}

/** `"Errors", "Other conditions"`, each with the number of an item behind it, or `rule` and the number. */
function citedHeadings(text: string): { readonly heading: string; readonly item: string | undefined }[] {
  const cited: { heading: string; item: string | undefined }[] = [];
  for (let rest = text; ; ) {
    const match = /^(?:effect )?(?:"([^"]+)"|`([^`]+)`)(?:,? (?:rule )?(\d+)\b)?/.exec(rest);
    if (match === null) return cited;
    cited.push({ heading: plain(match[1] ?? match[2] ?? ''), item: match[3] });
    rest = rest.slice(match[0].length);
    if (!/^, ["`]/.test(rest)) return cited;
    rest = rest.slice(2);
  }
}

/** Documents of others, which have that word in their names. */
const FOREIGN = /\b(?:YAML|OpenAPI|CSV|PROXY) $/;

/**
 * The specification is the interface: as a whole where the article stands before that word, else headings of it are
 * named.
 */
function* citedInterface(text: string, { headings }: Places): Generator<Found> {
  for (const match of text.matchAll(/\b[Ss]pecification\b/g)) {
    const before = text.slice(0, match.index);
    const rest = text.slice(match.index + match[0].length);
    if (FOREIGN.test(before)) continue;
    const named = citedHeadings(/^(?:, +| \()(.*)/s.exec(rest.slice(0, 300))?.[1] ?? '');
    const isWhole = /\b[Tt]he \*?$/.test(before) && named.length === 0 && !/^(?:,| \(|:) ?["`]/.test(rest);
    const resolved = isWhole || (named.length > 0 && named.every(({ heading, item }) => hasPlace(headings, heading, item)));
    yield { at: match.index, cited: match[0] + rest.slice(0, 50), resolved };
  }
}

function hasPlace(headings: Places['headings'], heading: string, item: string | undefined): boolean {
  const items = headings.get(heading);
  return items !== undefined && (item === undefined || items.has(item));
}

/**
 * A page of that name without a path is the one of rules; links and file names in quotes are left to the test of
 * documents.
 */
function* citedPolicy(text: string, { rules, policyHeadings }: Places): Generator<Found> {
  for (const match of text.matchAll(/(?<![\w/'"-]|\]\()policy\.md(?!['"#\w])/g)) {
    const rest = text.slice(match.index + match[0].length);
    const heading = /^, (?:end of )?"([^"]+)"/.exec(rest)?.[1] ?? /"([^"]+)" of $/.exec(text.slice(0, match.index))?.[1];
    const { names, length } = listOf(rest.replace(/^ /, ''));
    const resolved =
      heading === undefined ? names.length > 0 && names.every((name) => rules.has(name)) : policyHeadings.has(plain(heading));
    yield { at: match.index, cited: match[0] + rest.slice(0, Math.max(length + 1, 30)), resolved };
  }
}

/**
 * In a comment the number of a decision alone in brackets, or rules by number without their page: nobody can tell what
 * is meant.
 */
function bareNumbers(text: string, { decisions }: Places): { readonly line: number; readonly cited: string }[] {
  return text.split('\n').flatMap((line, at) => {
    const comment = /^\s*(?:\/?\*|\/\/).*/.exec(line)?.[0] ?? '';
    const number = /\((\d\.\d{1,2})\)/.exec(comment)?.[1];
    const bare = number !== undefined && decisions.has(number) ? `(${number})` : /(?<!", )\brules? \d+(?: to \d+)?/.exec(comment)?.[0];
    return bare === undefined ? [] : [{ line: at + 1, cited: bare }];
  });
}

/** Texts from which the pages were made and that are not in the repository. */
function* foreignFiles(text: string): Generator<Found> {
  for (const match of text.matchAll(/(?<![\w-])(?:(?:spec|decisions|decisions-later|design)\.md\b|shared\/)/g)) {
    yield { at: match.index, cited: match[0], resolved: false };
  }
}

/** A text whose lines are joined, so that a citation may go over the end of a line; an empty line parts. */
interface Joined {
  readonly text: string;
  /** Where each line begins. */
  readonly starts: readonly number[];
}

function joinLines(text: string): Joined {
  const starts: number[] = [];
  let joined = '';
  for (const line of text.split('\n')) {
    const content = line.replace(/^[ \t]*(?:\*(?![/*])|\/\/|#(?= )|>)?[ \t]*/, '').trimEnd();
    starts.push(joined.length);
    joined += content === '' ? '\n' : `${content} `;
  }
  return { text: joined, starts };
}

function lineAt(starts: readonly number[], at: number): number {
  return starts.filter((start) => start <= at).length;
}

function citationsIn({ file, text }: SourceFile, places: Places): { readonly count: number; readonly unresolved: Unresolved[] } {
  const joined = joinLines(text);
  const found = [
    ...citedDecisions(joined.text, places),
    ...citedInterface(joined.text, places),
    ...citedPolicy(joined.text, places),
    ...foreignFiles(joined.text),
  ].map(({ at, cited, resolved }) => ({ line: lineAt(joined.starts, at), cited, resolved }));
  const bare = bareNumbers(text, places).map(({ line, cited }) => ({ line, cited, resolved: false }));
  const all = [...found, ...bare];
  return {
    count: all.length,
    unresolved: all.flatMap(({ line, cited, resolved }) =>
      resolved ? [] : [{ file, line, cited: cited.replace(/ *\*\/.*$/s, '').trim() }],
    ),
  };
}

const files = citingFiles();
const places = placesOf();

/** The slug that readers of Markdown make of a heading. */
function slugOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/[^\p{L}\p{N}\p{M}_ -]/gu, '')
    .replaceAll(' ', '-');
}

/** Links to a heading of a document that the document does not have. */
function deadFragments({ file, text }: SourceFile, documents: ReadonlyMap<string, string>): string[] {
  return [...text.matchAll(/\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)/g)].flatMap((match) => {
    const [, target = '', fragment = ''] = match;
    const document = documents.get(target === '' ? file : normalize(join(dirname(file), target)));
    if (document === undefined) return [];
    const known = headingsOf(document).some(({ text: heading }) => slugOf(heading) === fragment);
    return known ? [] : [`${file}:${text.slice(0, match.index).split('\n').length}: ${target}#${fragment}`];
  });
}

t.test('every citation leads to a decision, a heading of the interface or a rule of policy', async (t) => {
  const results = files.map((file) => citationsIn(file, places));
  t.ok(results.reduce((sum, { count }) => sum + count, 0) > 380, 'citations are found at all');
  const unresolved = results.flatMap((result) => result.unresolved);
  t.strictSame(
    unresolved.map(({ file, line, cited }) => `${file}:${line}: ${cited}`),
    [],
  );
});

t.test('every link to a heading of a document leads to one', async (t) => {
  const documents = new Map(files.filter(({ file }) => file.endsWith('.md')).map(({ file, text }) => [file, text]));
  t.strictSame(
    [...documents].flatMap(([file, text]) => deadFragments({ file, text }, documents)),
    [],
  );
});

t.test('no number is given to two decisions or two rules, and none is left out', async (t) => {
  const numbers = decisionNumbers();
  t.strictSame(numbers.length, new Set(numbers).size);
  for (let section = 1; section <= 8; section++) {
    const own = numbers.filter((number) => number.startsWith(`${section}.`)).map((number) => Number(number.split('.')[1]));
    t.ok(numbers.includes(String(section)), `section ${section} has a page`);
    t.strictSame(
      own,
      own.map((_, at) => at + 1),
      `section ${section} counts from 1`,
    );
  }
  t.strictSame(
    [...places.rules],
    Array.from({ length: 17 }, (_, at) => String(at + 1)),
  );
});

function unresolvedIn(text: string): string[] {
  return citationsIn({ file: 'planted.ts', text }, places).unresolved.map(({ line, cited }) => `${line}: ${cited}`);
}

t.test('planted citations that lead somewhere are found and let pass', async (t) => {
  const good = [
    `/** Text (${DECISION} 6.8). */`,
    `/** Text (${DECISIONS} 3.7, 3.8). */`,
    `/** Text (${DECISIONS} 6.8 and 7.9). */`,
    `/** Text (${DECISIONS} 3.1, 3.3, 3.16 to 3.18). */`,
    `/** Text (${DECISION} section 2). ${DECISION.replace('d', 'D')} 3.8: text (${DECISION} 1). */`,
    `/** Text (${DECISIONS}, section 2 and 5.6), (${DECISIONS}, head). */`,
    `/** Text (${SPEC}, "Gateway admin API"; ${DECISION} 8.13). */`,
    `/** Text (${SPEC}, "Errors", "Other conditions"). */`,
    `/** Text (${SPEC}, "Authentication" 5), (${SPEC}, effect \`mutations\`; ${DECISIONS} 3.19, 8.4). */`,
    `/** Text (${SPEC}, "enforce_attribution": \`allow_overrides\`). */`,
    `/** The order of the ${SPEC} ("Transparent proxy mode", rule 2) as ${DECISION} 3.3 reads it. */`,
    `/**\n * Text (${DECISION}\n * 6.8; ${SPEC},\n * "Idempotency").\n */`,
    `/** Text (${POLICY} 9), (${POLICY} 2, 3), (${POLICY} 12 to 14), (${POLICY} 2, ${DECISION} 6.11). */`,
    `/** Text (${POLICY}, "Merging effects"; "Tools around it" of ${POLICY}; ${POLICY}, end of "Conditions"). */`,
  ];
  for (const text of good) t.strictSame(unresolvedIn(text), [], text);
  const { count } = citationsIn({ file: 'planted.ts', text: good.join('\n\n') }, places);
  t.equal(count, 28, 'each of them was seen');
});

t.test('planted citations that lead nowhere are found with their lines', async (t) => {
  const bad: readonly (readonly [text: string, found: string])[] = [
    [`a\n// (${DECISION} 9.9)`, `2: ${DECISION} 9.9`],
    [`// (${DECISIONS} 6.8, 6.99)`, `1: ${DECISIONS} 6.8, 6.99`],
    [`// (${DECISIONS} 3.20 to 3.40)`, `1: ${DECISIONS} 3.20 to 3.40`],
    [`// (${DECISIONS} 3.20 to 3.16)`, `1: ${DECISIONS} 3.20 to 3.16`],
    [`// (${DECISION} section 99)`, `1: ${DECISION} section 9`],
    [`// (${DECISION} L2.4)`, `1: ${DECISION} L2.4`],
    [`/**\n * Text (${DECISION}\n * 9.9).\n */`, `2: ${DECISION} 9.9`],
    [`// (${SPEC}, "No such heading")`, `1: ${SPEC}, "No such heading"`],
    [`// (${SPEC}, "Authentication" 99)`, `1: ${SPEC}, "Authentication" 99`],
    [`// (${SPEC} 4.6)`, `1: ${SPEC} 4.6`],
    [`// (${SPEC}: \`a sentence\`)`, `1: ${SPEC}: \`a sentence\``],
    [`// (${POLICY} 18)`, `1: ${POLICY} 18`],
    [`// (${POLICY}, "No such heading")`, `1: ${POLICY}, "No such heading"`],
    [`// (${POLICY})`, `1: ${POLICY}`],
    ['// what is not completed (7.8)', '1: (7.8)'],
    [' * What rules 12 to 14 say', '1: rules 12 to 14'],
    [`// see ${['design', 'md'].join('.')}`, `1: ${['design', 'md'].join('.')}`],
    [`// see ${['shared', 'x'].join('/')}`, `1: ${['shared', ''].join('/')}`],
  ];
  for (const [text, found] of bad) {
    const [first = ''] = unresolvedIn(text);
    t.ok(first.startsWith(found), `${JSON.stringify(text)} gives ${JSON.stringify(first)}`);
  }
});

t.test('a planted link to a heading that is not there is found', async (t) => {
  const page = {
    file: 'docs/page.md',
    text: '# Page\n\n## A `code` heading, of 2 words\n\n[here](#a-code-heading-of-2-words), [gone](#gone), [there](other.md#x)\n',
  };
  const documents = new Map([
    [page.file, page.text],
    ['docs/other.md', '# Other\n'],
  ]);
  t.strictSame(deadFragments(page, documents), ['docs/page.md:5: #gone', 'docs/page.md:5: other.md#x']);
});

t.test('no comment has a line over 120 columns, directives to a tool apart', async (t) => {
  const directive = /biome-ignore|eslint-disable|@ts-/;
  const long = citingFiles()
    .filter(({ file, text }) => /^(src|test|scripts|bench)\/.*\.(ts|mjs)$/.test(file) && !/^.*[Gg]enerated/.test(text))
    .flatMap(({ file, text }) => text.split('\n').map((line, at) => ({ line, place: `${file}:${at + 1}` })))
    .filter(({ line }) => line.length > 120 && /^\s*(\/\/|\/?\*)/.test(line) && !directive.test(line));
  t.strictSame(
    long.map(({ place }) => place),
    [],
  );
});
