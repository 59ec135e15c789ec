/*
 * What operators ask of an assistant, in the words of test/cases/mcp/tasks.json. A script acts as a model would: it takes a tool by its obvious name from the list, guesses the arguments, and may make so many
 * calls and no more; what was asked for is then so at the gateway. Tasks for which there is no tool yet wait in waiting-tasks.json, and fail there on the day that there is one.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { packageRoot } from '../../src/base/lib/package-root.ts';
import { Assistant, fits } from '../support/assistant.ts';
import { type FakeClock, fakeClock } from '../support/fake-clock.ts';
import { bundleOf, CHAT, type Governed, startGoverned } from '../support/governed.ts';
import { Inbox } from '../support/inbox.ts';
import { managedOf } from '../support/managed.ts';

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

interface World {
  readonly governed: Governed;
  readonly clock: FakeClock;
  readonly assistant: Assistant;
}

/** A gateway with workloads, projects, a cap, the calls of a week, one that waits for a person, and a caller in quarantine. */
async function world(t: Parameters<typeof startGoverned>[0]): Promise<World> {
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
  const { gw } = governed;
  for (const workload_id of ['ci', 'batch']) await gw.admin('PUT', '/v1/admin/workloads', { workload_id, org_id: 'default' });
  for (let at = 0; at < 3; at += 1) await call(governed, { workload: 'ci' });
  await call(governed, { workload: 'batch' });
  // No timer has to run for a day to begin, and connections stay.
  clock.set(TODAY - DAY_MS);
  await call(governed, { workload: 'ci', project: 'zeus' });
  clock.set(TODAY);
  const { keyOf, with: withKey } = await managedOf(gw);
  const manage = withKey((await keyOf('default')).key);
  for (const project_id of ['apollo', 'zeus']) await manage('POST', 'projects', { project_id });
  await call(governed, { project: 'apollo' });
  await manage('POST', 'budgets/limits', { scope: 'project', scope_id: 'apollo', limit_usd: '0.000001', actions: ['cap'] });
  await call(governed, { project: 'apollo' });
  await call(governed, { workload: 'ci', model: 'o3' });
  for (const caller of ['ask', 'bad']) await call(governed, { caller });
  const { key } = await keyOf('default', ['read', 'write'], 'mcp');
  return { governed, clock, assistant: new Assistant(gw.url, key) };
}

/** A call of an application; one of the same words is the same call. */
async function call({ execute }: Governed, { workload = 'default', project, caller, model }: CallStep['call']): Promise<number> {
  const attribution = { labels: { team: 'red' }, ...(project === undefined ? {} : { project_id: project }) };
  const params = { ...CHAT, ...(caller === undefined ? {} : { user: caller }), ...(model === undefined ? {} : { model }) };
  const { status } = await execute({ workload_id: workload, caller_id: caller ?? 'somebody', attribution }, { params });
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
      const status = await call(this.#world.governed, asked);
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

/** Such a task leaves the world as it was. */
function onlyReads({ setup = [], before = [], calls, after = [] }: Task): boolean {
  return (
    setup.length + before.length + after.length === 0 &&
    calls.every(({ tool }) => tool.every((name) => /^(?:list|get|explain)_/.test(name)))
  );
}

t.test('an assistant does what operators ask, in few calls', async (t) => {
  t.ok(TASKS.length >= 39, `${TASKS.length} tasks`);
  const forReaders = await world(t);
  for (const task of TASKS) {
    const { say, most, setup, before, calls, after } = task;
    await t.test(say, async (t) => {
      const played = onlyReads(task) ? forReaders : await world(t);
      const play = new Play(played);
      await play.steps(setup);
      await play.steps(before);
      const earlier = played.assistant.calls;
      await play.steps(calls);
      const made = played.assistant.calls - earlier;
      await play.steps(after);
      t.strictSame(play.wrong, []);
      t.ok(made <= most, `${made} calls`);
    });
  }
});

t.test('a task that waits for a tool waits no longer than there is one', async (t) => {
  const { assistant } = await world(t);
  const listed = await assistant.tools();
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
