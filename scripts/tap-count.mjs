/*
 * Counts tests in TAP as tap writes it to a plain process: a test is a subtest without subtests of its own. Assertions
 * are not counted; a failing assertion beside subtests fails the subtest around it.
 */
const SUBTEST = /^((?: {4})*)# Subtest: (.*)$/;
const POINT = /^((?: {4})*)(not )?ok\b(.*)$/;
const EMPTY_PLAN = /^((?: {4})*)1\.\.0(?: # (.+))?$/;
/** A hash that belongs to a name is written with a backslash. */
const DIRECTIVE = /(?<!\\)# (SKIP|TODO)\b/i;
/** Stands in the reason of a test that a peer was missing for, or that has one with a clock of its own. */
const WITHOUT_PEER = /npm run peers installs it|does not follow a clock that is moved/;
/** Ends the reason of a test that is left out where what it needs cannot be had everywhere. */
const OPTIONAL = /\(optional\)\s*$/;

export class TapCounter {
  passed = 0;
  failed = 0;
  skipped = 0;
  /** Skipped as well, and no reason to fail. */
  optional = 0;
  /** Of those, tests that a peer was missing for (`skipWithout` in test/support/peers.ts). */
  withoutPeer = 0;
  #rest = [];
  /** Open subtests, outermost first; the file itself is the first. */
  #open = [{ name: '', level: -1, tests: 0, failed: 0, assertions: 0, assertionsFailed: 0, skipReason: false }];

  /** The innermost test that has begun and not ended. */
  get current() {
    return this.#open
      .slice(1)
      .map((test) => test.name)
      .join(' > ');
  }

  write(text) {
    const lines = text.split('\n');
    // The parts of a line are joined when it ends: one of millions of characters would otherwise be copied with each of
    // them.
    this.#rest.push(lines.shift());
    if (lines.length === 0) return;
    const rest = lines.pop();
    lines.unshift(this.#rest.join(''));
    this.#rest = [rest];
    for (const line of lines) this.#line(line);
  }

  /**
   * Closes the file; `ok` says whether its process ended as a passing one does. Returns why the file itself failed, if
   * it did.
   */
  end(ok) {
    this.write('\n');
    const file = this.#open[0];
    if (file.tests === 0 && file.skipReason && ok) this.skipped += 1;
    else if (file.tests === 0 && file.assertions > 0 && file.assertionsFailed === 0 && ok) this.passed += 1;
    else if (file.tests === 0 && ok) return this.#fail('it ran no test');
    else if (file.assertionsFailed > 0 && file.failed === 0) return this.#fail('an assertion outside of its tests failed');
    else if (!ok && this.failed === 0) return this.#fail('its process failed');
    return undefined;
  }

  #fail(reason) {
    this.failed += 1;
    return reason;
  }

  #line(line) {
    const subtest = SUBTEST.exec(line);
    if (subtest !== null) {
      const level = subtest[1].length / 4;
      this.#open.length = this.#open.findLastIndex((test) => test.level < level) + 1;
      this.#open.push({ name: subtest[2], level, tests: 0, failed: 0, assertions: 0, assertionsFailed: 0, skipReason: false });
      return;
    }
    const point = POINT.exec(line);
    if (point !== null) this.#point(point[1].length / 4, point[2] === undefined, DIRECTIVE.test(point[3]) ? point[3] : undefined);
    else this.#emptyPlan(EMPTY_PLAN.exec(line)?.[2]);
  }

  #emptyPlan(reason) {
    if (reason === undefined) return;
    this.#open.at(-1).skipReason = true;
    if (WITHOUT_PEER.test(reason)) this.withoutPeer += 1;
  }

  #skip(directive) {
    if (WITHOUT_PEER.test(directive)) this.withoutPeer += 1;
    if (OPTIONAL.test(directive)) this.optional += 1;
    else this.skipped += 1;
  }

  #point(level, ok, directive) {
    const index = this.#open.findLastIndex((test) => test.level === level);
    if (index > 0) {
      const closed = this.#open[index];
      this.#open.length = index;
      this.#close(closed, this.#open.at(-1), ok, directive);
      return;
    }
    const around = this.#open.findLast((test) => test.level < level);
    if (directive !== undefined) {
      this.#skip(directive);
      if (around.level === -1) around.tests += 1;
      return;
    }
    around.assertions += 1;
    if (!ok) around.assertionsFailed += 1;
  }

  #close(test, parent, ok, directive) {
    parent.tests += 1;
    if (directive !== undefined) {
      this.#skip(directive);
      return;
    }
    if (!ok) parent.failed += 1;
    if (!ok && test.failed === 0) this.failed += 1;
    else if (ok && test.tests === 0) this.passed += 1;
  }
}
