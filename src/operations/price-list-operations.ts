import { z } from 'zod';
import { canonicalConnectorId } from '../base/catalogue/connector-id.ts';
import { type PriceListSource, readPriceListSource } from '../base/config/price-list-source.ts';
import { parseTime, timestamp } from '../base/lib/clock.ts';
import { GatewayError } from '../base/lib/gateway-error.ts';
import { dayOf, type GivenList, MAX_LIST_BYTES } from '../services/prices/list-sources.ts';
import type { ListInForce, TakenOutcome } from '../services/prices/price-lists.ts';
import { ALSO_WHEN_WRONG, choice, members, optional, text, textThere } from './members.ts';
import { type GatewayOperation, operation, READS, REPLACES, type Shown } from './operation.ts';
import type { OperationServices } from './services.ts';
import { count, moment, time } from './shapes.ts';
import { CHANGE, DIFF, EXPLANATION, LIST, shownChange, shownDiff, shownExplanation, shownList } from './shown-prices.ts';

/** The text of a list as JSON, in which quotes are two bytes. */
const MAX_BODY_BYTES = MAX_LIST_BYTES + MAX_LIST_BYTES / 4;
const MAX_ACCEPTED = 1_000;
const SOURCE_RULE = 'must be `shipped` or an https URL';
const TEXT_RULE = `must be the text of a price list, of at most ${MAX_LIST_BYTES} characters`;
const DAY_RULE = 'must be a day such as 2026-09-23';
const NAME_RULE = 'must be a line of text';

type Services = Pick<OperationServices, 'prices'>;

const IN_FORCE = LIST.extend({
  from: z.enum(['shipped', 'file', 'address', 'given']).meta({ description: '`given`: with a request' }),
  name: z.string().meta({ description: 'Where it comes from; of an address without its query' }),
  taken_at: time.optional(),
  taken_by: z.string().optional().meta({ description: 'Who has asked for it, or the node that was told to by its setting' }),
  age_days: count.meta({ description: 'Since its date' }),
});

const STATUS = z.object({
  source: z.string().meta({ description: '`GW_PRICE_LIST`; of an address without its query' }),
  refresh_seconds: count.nullable().meta({ description: '`GW_PRICE_LIST_REFRESH`; null: the source is no address' }),
  next_at: time.nullable().meta({ description: 'When the address is asked next' }),
  last: z
    .object({ at: time, outcome: z.enum(['taken', 'unchanged', 'older', 'refused', 'failed']), detail: z.string().optional() })
    .nullable()
    .meta({ description: 'When the source was asked or read the last time, and what came of it' }),
  in_force: IN_FORCE,
  shipped: LIST.meta({ description: 'That of the package' }),
  held: z.array(CHANGE).meta({ description: 'Changes that wait for a yes; what was there before is charged meanwhile' }),
  warnings: z.array(z.string()).meta({ description: 'What the list in force says and this version of the program does not understand' }),
  priced_by_default: z
    .array(z.object({ provider: z.string(), model: z.string(), calls: count, last_at: time }))
    .meta({ description: 'Models that were called since the start of this gateway and have no price; the 100 that were called last' }),
});

/** As it is answered. */
export type PriceListStatus = Shown<z.output<typeof STATUS>>;

const UPDATED = z.object({
  outcome: z.enum(['taken', 'unchanged', 'older']).meta({ description: '`unchanged`: it was in force already' }),
  in_force: IN_FORCE,
  added: count,
  removed: count,
  changed: count,
  held: z.array(CHANGE),
  warnings: z.array(z.string()),
});

export type UpdatedPriceList = Shown<z.output<typeof UPDATED>>;

const listText = z.string(TEXT_RULE).min(1, TEXT_RULE).max(MAX_LIST_BYTES, TEXT_RULE).meta({ description: 'The text of a list' });
const sourceText = z
  .string(SOURCE_RULE)
  .refine((given) => typeof sourceOf(given) !== 'string', SOURCE_RULE)
  .meta({ description: '`shipped`, or an https URL that this gateway asks', examples: ['shipped'] });

/** A list by its text or by where it is; neither: the source of `GW_PRICE_LIST`. */
function givenBody() {
  return members({
    list: listText.optional(),
    source: sourceText.optional(),
    name: text
      .regex(/^\P{Cc}*$/u, NAME_RULE)
      .optional()
      .meta({ description: 'What the text is called, for people' }),
    date: z
      .string(DAY_RULE)
      .refine((given) => isDay(given), DAY_RULE)
      .optional()
      .meta({ description: 'The day that the text is of, where it does not say so itself; default: today', examples: ['2026-09-23'] }),
  }).superRefine(({ list, source }, { addIssue }) => {
    if (list !== undefined && source !== undefined) addIssue({ code: 'custom', path: ['source'], message: 'has no place beside list' });
  }, ALSO_WHEN_WRONG);
}

type GivenBody = z.output<ReturnType<typeof givenBody>>;

function isDay(given: string): boolean {
  const at = /^\d{4}-\d{2}-\d{2}$/.test(given) ? Date.parse(`${given}T00:00:00Z`) : Number.NaN;
  return !Number.isNaN(at) && dayOf(at) === given;
}

/** Files of the gateway's machine are for its settings alone. */
function sourceOf(given: string): PriceListSource | string {
  const source = readPriceListSource(given);
  return typeof source !== 'string' && source.kind === 'file' ? SOURCE_RULE : source;
}

function namedSource({ source }: GivenBody): PriceListSource | undefined {
  const read = source === undefined ? undefined : sourceOf(source);
  return typeof read === 'string' ? undefined : read;
}

function givenList(list: string, { name, date }: GivenBody, { prices }: Services): GivenList {
  return { text: list, kind: 'given', name: name ?? 'a request', day: date ?? dayOf(prices.clock.now()) };
}

const EXPLAINED = EXPLANATION.extend({
  provider: z.string(),
  model: z.string(),
  at: time,
  list: LIST.meta({ description: 'The list in force' }),
});
export type ExplainedPrice = Shown<z.output<typeof EXPLAINED>>;

const ACCEPTED = members({
  all: z.boolean('must be true or false').optional(),
  models: z
    .array(members({ provider: textThere, model: textThere }), 'must be a list of {provider, model}')
    .max(MAX_ACCEPTED, `must be at most ${MAX_ACCEPTED}`)
    .optional()
    .meta({ description: 'Models as `held` names them' }),
}).superRefine(({ all, models }, { addIssue }) => {
  if ((all === true) === (models !== undefined && models.length > 0))
    addIssue({ code: 'custom', path: ['models'], message: 'must name what is accepted, or all must be true' });
}, ALSO_WHEN_WRONG);

function shownInForce(
  { kind, name, taken_at: at, taken_by: by, ...identity }: ListInForce,
  ageDays: number,
): Shown<z.output<typeof IN_FORCE>> {
  return { ...shownList(identity), from: kind, name, ...optional('taken_at', at), ...optional('taken_by', by), age_days: ageDays };
}

function shownOutcome({ outcome, diff, held, warnings }: TakenOutcome, { prices: { lists } }: Services): UpdatedPriceList {
  return {
    outcome,
    in_force: shownInForce(lists.inForce, lists.ageDays),
    added: diff.added.length,
    removed: diff.removed.length,
    changed: diff.changed.length,
    held: held.map(shownChange),
    warnings,
  };
}

function shownStatus({ prices: { lists, refresh, unpriced } }: Services): PriceListStatus {
  const { source, everyMs, nextAt, last } = refresh;
  return {
    source: source.name,
    refresh_seconds: source.kind === 'address' ? everyMs / 1_000 : null,
    next_at: nextAt === undefined ? null : timestamp(nextAt),
    last: last ?? null,
    in_force: shownInForce(lists.inForce, lists.ageDays),
    shipped: shownList(lists.shipped),
    held: lists.held.map(shownChange),
    warnings: lists.unknown,
    priced_by_default: unpriced.list(),
  };
}

/**
 * The price list, and how it is renewed without a release (decision 6.16). Only the operator changes prices: the
 * management API shows them.
 */
export const PRICE_LIST_OPERATIONS: readonly GatewayOperation[] = [
  operation({
    id: 'prices.status',
    method: 'GET',
    path: '/v1/admin/prices/status',
    scope: 'admin',
    summary:
      'Which price list is in force, where it comes from, what of it waits for a yes, and which models were called that it does not know.',
    annotations: READS,
    output: { status: 200, schema: STATUS },
    handle: (_call, services) => ({ json: shownStatus(services) }),
  }),
  operation({
    id: 'prices.explain',
    method: 'GET',
    path: '/v1/admin/prices/explain',
    scope: 'admin',
    summary: 'What a model costs at a provider, and why: the source and the rule that priced its name, and what was taken off that name.',
    annotations: READS,
    errors: ['not_found'],
    input: { query: { schema: () => z.strictObject({ provider: textThere, model: textThere, at: moment.optional() }) } },
    output: { status: 200, schema: EXPLAINED },
    handle: ({ query: { provider: named, model, at } }, { prices: { catalogues, lists, clock } }) => {
      const provider = canonicalConnectorId(catalogues.current(), named);
      if (provider === undefined) throw new GatewayError('not_found', `There is no provider ${named}.`);
      const moment = parseTime(at ?? '') ?? clock.now();
      const explanation = shownExplanation(catalogues.explainPrice(provider, model, moment));
      return { json: { provider, model, at: timestamp(moment), list: shownList(lists.inForce), ...explanation } };
    },
  }),
  operation({
    id: 'prices.diff',
    method: 'GET',
    path: '/v1/admin/prices/diff',
    scope: 'admin',
    summary:
      'What another list says that the one in force does not: `with=shipped` that of the package, `with=held` the newest one, where some of it waits for a yes.',
    annotations: READS,
    input: { query: { schema: () => z.strictObject({ with: choice(['shipped', 'held']).optional() }) } },
    output: { status: 200, schema: DIFF },
    handle: async ({ query }, { prices: { lists } }) => {
      if (query.with !== 'held') return { json: shownDiff(await lists.compareShipped()) };
      return { json: shownDiff({ diff: { added: [], removed: [], changed: lists.held }, warnings: lists.unknown }) };
    },
  }),
  operation({
    id: 'prices.compare',
    method: 'POST',
    path: '/v1/admin/prices/diff',
    scope: 'admin',
    summary: 'The same of the text of a list, or of what an address or the source of `GW_PRICE_LIST` has now; nothing is changed.',
    annotations: READS,
    maxBodyBytes: MAX_BODY_BYTES,
    errors: ['invalid_price_list', 'price_list_unavailable'],
    input: { body: { schema: givenBody, what: 'The body', optional: true } },
    output: { status: 200, schema: DIFF },
    handle: async ({ body }, services) => {
      const { lists, refresh } = services.prices;
      const { list } = body;
      const compared = list === undefined ? refresh.compare(namedSource(body)) : lists.compare(givenList(list, body, services));
      return { json: shownDiff(await compared) };
    },
  }),
  operation({
    id: 'prices.update',
    method: 'POST',
    path: '/v1/admin/prices/update',
    scope: 'admin',
    summary:
      'Takes a newer price list: its text, what an https address has, that of the package, or (without any) what the source of `GW_PRICE_LIST` has now. One that cannot be had or used leaves the last one in force.',
    annotations: REPLACES,
    maxBodyBytes: MAX_BODY_BYTES,
    errors: ['invalid_price_list', 'price_list_unavailable', 'conflict'],
    input: { body: { schema: givenBody, what: 'The body', optional: true } },
    output: { status: 200, schema: UPDATED },
    handle: async ({ body, commit, principal }, services) => {
      const { lists, refresh } = services.prices;
      const { list } = body;
      const change = { by: principal.id, commit };
      const taken = list === undefined ? refresh.update(change, namedSource(body)) : lists.take(givenList(list, body, services), change);
      return { json: shownOutcome(await taken, services) };
    },
  }),
  operation({
    id: 'prices.accept',
    method: 'POST',
    path: '/v1/admin/prices/accept',
    scope: 'admin',
    summary: 'Says yes to changes that are held back, of some models or `all`: from the next call on they hold.',
    annotations: REPLACES,
    errors: ['not_found', 'conflict', 'invalid_price_list'],
    input: { body: { schema: () => ACCEPTED, what: 'The body' } },
    output: { status: 200, schema: z.object({ accepted: z.array(CHANGE), held: z.array(CHANGE) }) },
    handle: async ({ body: { models, all }, commit, principal }, { prices: { lists } }) => {
      const accepted = await lists.accept(all === true ? 'all' : (models ?? []), { by: principal.id, commit });
      return { json: { accepted: accepted.map(shownChange), held: lists.held.map(shownChange) } };
    },
  }),
];
