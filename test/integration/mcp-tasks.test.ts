/*
 * What operators ask of an assistant, in the words of test/cases/mcp/tasks.json. A script acts as a model would: it
 * takes a tool by its obvious name from the list, guesses the arguments, and may make so many calls and no more; what
 * was asked for is then so at the gateway. Tasks for which there is no tool yet wait in waiting-tasks.json, and fail
 * there on the day that there is one.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { Assistant, fits } from '../support/assistant.ts';
import { type FakeClock, fakeClock } from '../support/fake-clock.ts';
import { bundleOf, CHAT, type Governed, startGoverned } from '../support/governed.ts';
import { Inbox } from '../support/inbox.ts';
import { type Manage, type Managed, managedOf } from '../support/managed.ts';

type Json = Readonly<Record<string, unknown>>;

interface ToolStep {
  /** As a model would call it: the first that is listed is taken. */
  readonly tool: readonly string[];
  readonly args?: Json;
  /** What the answer has. */
  readonly answer?: unknown;
  /** Members of the answer, by paths, for later steps: `{name}`. */
  readonly save?: Readonly<Record<string, string>>;
}

interface CallStep {
  readonly call: { readonly workload?: string; readonly project?: string; readonly caller?: string; readonly model?: string };
  readonly times?: number;
  readonly status: number;
}

type Step = ToolStep | CallStep | { readonly days: number } | { readonly seconds: number };

interface Task {
  readonly say: string;
  /** Calls of tools. */
  readonly most: number;
  /** Made by somebody else before, and not counted. */
  readonly setup?: readonly ToolStep[];
  readonly before?: readonly Step[];
  readonly calls: readonly ToolStep[];
  readonly after?: readonly Step[];
}

interface WaitingTask {
  readonly say: string;
  /** Of the tool, and of its argument, that it waits for; regular expressions. */
  readonly waits_for: { readonly tool: string; readonly argument?: string };
  /** What it will be, with guesses of the tool's name. */
  readonly task: Omit<Task, 'say'>;
}

function cases<T>(file: string): readonly T[] {
  return JSON.parse(readFileSync(join(packageRoot(), 'test', 'cases', 'mcp', file), 'utf8')) as readonly T[];
}

const TASKS = cases<Task>('tasks.json');
const WAITING = cases<WaitingTask>('waiting-tasks.json');

/** A Thursday; the calls of last week were on the Wednesday before. */
const TODAY = Date.parse('2026-11-26T12:00:00Z');
const DAY_MS = 86_400_000;
const SLACK = 'hooks.slack.com';
const BUNDLE = bundleOf(`  targets:
    - {id: all, effect: {decision: allow}}
    - {id: no-o3, when: {field: context.action.params.model, equals: o3}, effect: {decision: deny, reason: o3 is too dear}}
  risk:
    - {id: ask, when: {field: context.action.params.user, equals: ask}, effect: {decision: require_approval, reason: a person decides}}
    - {id: lock, when: {field: context.action.params.user, equals: bad}, effect: {decision: quarantine, reason: odd behaviour}}
`);

/** One gateway for all: each task has an org of its own on it. */
interface Stage {
  readonly governed: Governed;
  readonly clock: FakeClock;
  readonly managed: Managed;
}

/** What one task is played in. */
interface World extends Stage {
  readonly org: string;
  readonly assistant: Assistant;
}

async function stage(t: Parameters<typeof startGoverned>[0]): Promise<Stage> {
  const clock = fakeClock(TODAY - 8 * DAY_MS);
  const inbox = new Inbox(({ host }) => (host === SLACK ? { status: 200, text: 'ok' } : undefined));
  const governed = await startGoverned(t, {
    clock,
    bundle: BUNDLE,
    hosts: [SLACK],
    handler: inbox.handler(
      [SLACK],
      (_request, response) =>
        void response.setHeader('content-type', 'application/json').end('{"usage":{"prompt_tokens":11,"completion_tokens":7}}'),
    ),
  });
  return { governed, clock, managed: await managedOf(governed.gw) };
}

/**
 * Orgs with workloads, projects, a cap, the calls of a week, one that waits for a person, and a caller in quarantine.
 */
async function worlds(on: Stage, orgs: readonly string[]): Promise<readonly World[]> {
  const { governed, clock } = on;
  const calls = (asked: CallStep['call']) => Promise.all(orgs.map((org) => call(governed, org, asked)));
  const manages = await Promise.all(orgs.map(async (org) => on.managed.with((await on.managed.keyOf(org)).key)));
  const manage = (...asked: Parameters<Manage>) => Promise.all(manages.map((one) => one(...asked)));
  for (const workload_id of ['ci', 'batch']) await manage('PUT', 'workloads', { workload_id });
  for (let at = 0; at < 3; at += 1) await calls({ workload: 'ci' });
  await calls({ workload: 'batch' });
  // No timer has to run for a day to begin, and connections stay.
  clock.set(TODAY - DAY_MS);
  await calls({ workload: 'ci', project: 'zeus' });
  clock.set(TODAY);
  for (const project_id of ['apollo', 'zeus']) await manage('POST', 'projects', { project_id });
  await calls({ project: 'apollo' });
  await manage('POST', 'budgets/limits', { scope: 'project', scope_id: 'apollo', limit_usd: '0.000001', actions: ['cap'] });
  await calls({ project: 'apollo' });
  await calls({ workload: 'ci', model: 'o3' });
  for (const caller of ['ask', 'bad']) await calls({ caller });
  const keys = await Promise.all(orgs.map((org) => on.managed.keyOf(org, ['read', 'write'], 'mcp')));
  return orgs.map((org, at) => ({ ...on, org, assistant: new Assistant(governed.gw.url, keys[at]?.key ?? '') }));
}

/** A call of an application; one of the same words is the same call. */
async function call(
  { execute }: Governed,
  org: string,
  { workload = 'default', project, caller, model }: CallStep['call'],
): Promise<number> {
  const attribution = { labels: { team: 'red' }, ...(project === undefined ? {} : { project_id: project }) };
  const params = { ...CHAT, ...(caller === undefined ? {} : { user: caller }), ...(model === undefined ? {} : { model }) };
  const { status } = await execute({ org_id: org, workload_id: workload, caller_id: caller ?? 'somebody', attribution }, { params });
  return status;
}

function memberAt(value: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((found, name) => (found as Record<string, unknown> | undefined)?.[name], value);
}

/** The steps of one task, with what they hand over. */
class Play {
  readonly #world: World;
  readonly #saved = new Map<string, unknown>();
  /** What was not as it should be. */
  readonly wrong: string[] = [];

  constructor(played: World) {
    this.#world = played;
  }

  async steps(steps: readonly Step[] = []): Promise<void> {
    for (const step of steps) {
      if ('days' in step) this.#world.clock.set(this.#world.clock.now() + step.days * DAY_MS);
      else if ('seconds' in step) this.#world.clock.advance(step.seconds * 1000);
      else if ('call' in step) await this.#callStep(step);
      else await this.#toolStep(step);
    }
  }

  async #callStep({ call: asked, times = 1, status: wanted }: CallStep): Promise<void> {
    for (let at = 0; at < times; at += 1) {
      const status = await call(this.#world.governed, this.#world.org, asked);
      if (status !== wanted) this.wrong.push(`call ${at + 1} of ${JSON.stringify(asked)}: ${status}, not ${wanted}`);
    }
  }

  async #toolStep({ tool: names, args = {}, answer: wanted, save = {} }: ToolStep): Promise<void> {
    const { assistant } = this.#world;
    const listed = await assistant.tools();
    const name = names.find((one) => listed.has(one));
    if (name === undefined) {
      this.wrong.push(`none of ${names.join(', ')} is listed`);
      return;
    }
    const filled = Object.entries(args).map(([argument, value]) => {
      const saved = typeof value === 'string' ? /^\{(\w+)\}$/.exec(value)?.[1] : undefined;
      return [argument, saved === undefined ? value : this.#saved.get(saved)] as const;
    });
    const { answer, failed } = await assistant.call(name, Object.fromEntries(filled));
    if (failed) this.wrong.push(`${name} ${JSON.stringify(args)} failed: ${JSON.stringify(answer)}`);
    else if (wanted !== undefined && !fits(answer, wanted))
      this.wrong.push(`${name} answered ${JSON.stringify(answer)}, not ${JSON.stringify(wanted)}`);
    for (const [as, path] of Object.entries(save)) this.#saved.set(as, memberAt(answer, path));
  }
}

/** Days go on for all. */
function movesDays({ after = [] }: Task): boolean {
  return after.some((step) => 'days' in step);
}

t.test('an assistant does what operators ask, in few calls', async (t) => {
  t.ok(TASKS.length >= 39, `${TASKS.length} tasks`);
  const tasks = [...TASKS].sort((a, b) => Number(movesDays(a)) - Number(movesDays(b)));
  t.equal(tasks.filter(movesDays).length, 1, 'the last one');
  const played = await worlds(
    await stage(t),
    tasks.map((_task, at) => `org-${at}`),
  );
  for (const [at, { say, most, setup, before, calls, after }] of tasks.entries()) {
    const world = played[at];
    if (world === undefined) throw new TypeError('each task has its world');
    const play = new Play(world);
    await play.steps(setup);
    await play.steps(before);
    const earlier = world.assistant.calls;
    await play.steps(calls);
    const made = world.assistant.calls - earlier;
    await play.steps(after);
    t.strictSame(play.wrong, [], say);
    t.ok(made <= most, `${say}: ${made} of ${most} calls`);
  }
});

t.test('a task that waits for a tool waits no longer than there is one', async (t) => {
  const [world] = await worlds(await stage(t), ['org']);
  const listed = (await world?.assistant.tools()) ?? new Map<string, readonly string[]>();
  t.ok(listed.size > 60, `${listed.size} tools`);
  for (const { say, waits_for: wanted } of WAITING) {
    const found = [...listed].filter(
      ([name, args]) =>
        new RegExp(wanted.tool).test(name) &&
        (wanted.argument === undefined || args.some((argument) => new RegExp(wanted.argument ?? '').test(argument))),
    );
    const names = found.map(([name]) => name);
    t.strictSame(names, [], `"${say}" can be done now: make it a task of tasks.json`);
  }
});
