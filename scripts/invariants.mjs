/*
 * What never happens (test/meta/invariants.yaml), and the tests that hold it: those with a comment `// Holds: name`
 * above them. reference.mjs makes the page of it.
 */
import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { parse } from 'yaml';
import { filesBelow } from './setup.mjs';

const MARK = /^ *\/\/ Holds: (.+)$/gm;
/** A test's title is the first text after its mark that is an argument of its own. */
const TITLE = /(['"`])((?:\\.|(?!\1).)*)\1,/;
const WIDTH = 120;

/**
 * Every mark of every test, in the order of files.
 * @returns `{ name, file, title }`; `title` is undefined where no test follows
 */
export function marks(root) {
  const files = filesBelow(join(root, 'test')).filter((file) => file.endsWith('.test.ts'));
  return files.flatMap((path) => {
    const text = readFileSync(path, 'utf8');
    const file = relative(root, path).replaceAll('\\', '/');
    return [...text.matchAll(MARK)].flatMap(({ 1: names, 0: mark, index }) => {
      const title = TITLE.exec(text.slice(index + mark.length, index + mark.length + 1_000))?.[2]?.replaceAll("\\'", "'");
      return names.split(', ').map((name) => ({ name, file, title }));
    });
  });
}

/**
 * Each invariant: its group, its name, what never happens, and what holds it: tests, and what else (`also`: lints, a
 * fuzz target).
 */
export function invariants(root) {
  const groups = parse(readFileSync(join(root, 'test', 'meta', 'invariants.yaml'), 'utf8'));
  const held = marks(root);
  return Object.entries(groups).flatMap(([group, named]) =>
    Object.entries(named).map(([name, { never, also = [] }]) => ({
      group,
      name,
      never,
      also,
      tests: held.filter((mark) => mark.name === name).map(({ file, title }) => ({ file, title })),
    })),
  );
}

/** The page docs/invariants.md. */
export function invariantsPage(root) {
  const all = invariants(root);
  const groups = [...new Set(all.map(({ group }) => group))].map((group) => {
    const lines = all.filter((one) => one.group === group).map(({ never, also, tests }) => `${item(never)}\n\n${heldBy(tests, also)}`);
    return `## ${group}\n\n${lines.join('\n\n')}`;
  });
  return `# What never happens

Invariants are easiest to check as absences. Below each stands what fails when it is broken: tests by file and title,
and lints. A new one is an entry of \`test/meta/invariants.yaml\` and a comment above each test that holds it.

${groups.join('\n\n')}`;
}

function item(text) {
  return filled(`* ${text}`, '  ');
}

function heldBy(tests, also) {
  const files = [...new Set(tests.map(({ file }) => file))];
  const cited = files.map((file) => {
    const titles = tests.filter((test) => test.file === file).map(({ title }) => `*${title}*`);
    return `\`${file}\` ${titles.join(', ')}`;
  });
  return filled(`  Held by ${[...cited, ...also].join('; ')}.`, '  ');
}

function filled(text, indent) {
  const lines = [''];
  for (const word of text.trimEnd().split(/(?<=\S) /)) {
    const line = lines.at(-1);
    if (line.trim() === '') lines[lines.length - 1] = line + word;
    else if (line.length + word.length < WIDTH) lines[lines.length - 1] = `${line} ${word}`;
    else lines.push(indent + word);
  }
  return lines.join('\n');
}
