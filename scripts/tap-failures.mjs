/*
 * What failed in the output of one test file, to be read first: each assertion that failed, with the names of the tests
 * around it and what tap says of it; the test that was under way at the end; and what the file said beside TAP (the
 * trace of a process that crashed).
 */
const SUBTEST = /^((?: {4})*)# Subtest: (.*)$/;
const POINT = /^((?: {4})*)(not )?ok\b(?: \d+)?(?: - )?(.*)$/;
const OTHER_TAP = /^ *(TAP version \d+|\d+\.\.\d+.*|#.*|Bail out!.*|)$/;
const DIRECTIVE = /(?<!\\)# (SKIP|TODO)\b/i;
/**
 * Members of what tap says that help nobody: what a hanging process holds open, and where the line is in the built
 * file.
 */
const NOISE = new Set(['handles:', 'generated:']);
/** Further failures are named only, so that the cause is in the first forty lines. */
const SHOWN_WHOLE = 2;
const DETAIL_LINES = 18;
const STRAY_LINES = 12;
const LINE_SHOWN = 500;

/** Lines to print of a file that failed. */
export function failuresIn(output) {
  const reading = new Reading();
  for (const line of output.split('\n')) reading.line(line);
  const { failures, open, stray } = reading;
  const lines = failures.flatMap(({ name, after, details }, at) => [
    `not ok: ${name}`,
    ...(after === undefined ? [] : [`    the last that was ok before: ${after}`]),
    ...(at < SHOWN_WHOLE ? cut(withoutNoise(details), DETAIL_LINES).map((line) => `    ${line}`) : []),
  ]);
  if (open.length > 0) lines.push(`under way at the end: ${namesOf(open)}`);
  if (stray.length > 0) lines.push('beside TAP it said:', ...cut(stray, STRAY_LINES).map((line) => `    ${line}`));
  return lines;
}

class Reading {
  failures = [];
  stray = [];
  /** Tests that have begun and not ended, outermost first. */
  open = [];
  /** Of the failure whose details are being read. */
  #details;
  #inside = false;

  line(line) {
    const trimmed = line.trim();
    if (this.#inside) this.#detail(line, trimmed);
    else if (trimmed === '---') this.#inside = true;
    else if (!this.#begins(line) && !this.#point(line) && !OTHER_TAP.test(line)) this.stray.push(line.trimEnd());
  }

  #detail(line, trimmed) {
    if (trimmed === '...') {
      this.#inside = false;
      this.#details = undefined;
    } else if (this.#details !== undefined) this.#details.push(line);
  }

  #begins(line) {
    const subtest = SUBTEST.exec(line);
    if (subtest === null) return false;
    const level = subtest[1].length;
    this.open = this.open.filter((test) => test.level < level);
    this.open.push({ level, name: subtest[2], failed: false });
    return true;
  }

  #point(line) {
    const point = POINT.exec(line);
    if (point === null) return false;
    const level = point[1].length;
    const closed = this.open.find((test) => test.level === level);
    this.open = this.open.filter((test) => test.level < level);
    this.#details = undefined;
    const around = this.open.at(-1);
    if (point[2] === undefined || DIRECTIVE.test(point[3])) {
      if (around !== undefined) around.lastOk = point[3];
      return true;
    }
    // A test fails with what failed in it: that has been told.
    if (closed?.failed !== true) this.#fail(closed === undefined ? point[3] : closed.name, closed?.lastOk ?? around?.lastOk);
    for (const test of this.open) test.failed = true;
    return true;
  }

  #fail(name, after) {
    this.#details = [];
    this.failures.push({ name: namesOf([...this.open, { name }]), after, details: this.#details });
  }
}

function namesOf(tests) {
  return tests.map(({ name }) => name).join(' > ');
}

function withoutNoise(details) {
  let within = Number.POSITIVE_INFINITY;
  return details.filter((line) => {
    const indentation = line.search(/\S/);
    if (indentation > within || indentation === -1) return false;
    within = NOISE.has(line.trim()) ? indentation : Number.POSITIVE_INFINITY;
    return within === Number.POSITIVE_INFINITY;
  });
}

/**
 * The first lines without the indentation that all of them have, and no longer than a person reads; what is left out is
 * said.
 */
function cut(lines, count) {
  const first = lines.slice(0, count);
  const indentation = Math.min(...first.map((line) => line.search(/\S/)));
  const shown = first.map((line) => shortened(line.slice(indentation)));
  return lines.length > count ? [...shown, `[... ${lines.length - count} more lines]`] : shown;
}

function shortened(line) {
  return line.length > LINE_SHOWN ? `${line.slice(0, LINE_SHOWN)}[... ${line.length - LINE_SHOWN} more characters]` : line;
}
