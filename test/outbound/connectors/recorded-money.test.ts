/*
 * What recorded answers of every wire format cost, against amounts that were reckoned by hand from the price list
 * (test/cases/money), and against another reader of usage: that of the price list's own package.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { extractUsage, type Provider as JudgeProvider, waitForUpdate } from '@pydantic/genai-prices';
import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import { namedModels } from '../../../src/base/catalogue/named-models.ts';
import { conditionalPrices, isTiered } from '../../../src/base/catalogue/price-list/list-shape.ts';
import { planPrice } from '../../../src/base/catalogue/prices/plan-price.ts';
import type { Operation } from '../../../src/base/catalogue/types.ts';
import { modelAsSeen } from '../../../src/base/catalogue/usual-path.ts';
import { packageRoot } from '../../../src/base/lib/package-root.ts';
import type { Pass, TokenCounts, Usage } from '../../../src/base/model/usage.ts';
import { chargedFor } from '../../../src/decide/pricing/answered-price.ts';
import { createAnswerReader } from '../../../src/outbound/connectors/answer-reader.ts';
import { createStreamTap } from '../../../src/outbound/connectors/create-stream-tap.ts';
import { type AnswerFacts, readUsage, usageOfHeaders } from '../../../src/outbound/connectors/usage-reader.ts';
import { meteringFrom } from '../../../src/record/metering.ts';
import { byHand } from '../../support/by-hand.ts';
import { askedFor, cameAt, type MoneyRow, methodAndPath, moneyRows, streamedAnswer, wholeAnswer } from '../../support/money-rows.ts';

const catalogue = loadCatalogue();
const rows = moneyRows();
const DATA = join(packageRoot(), 'src/base/catalogue/data');

function operationOf({ provider: id, call = '', dialect, socket = false }: MoneyRow): Operation {
  const provider = catalogue.provider(id);
  const named = dialect === undefined ? undefined : catalogue.dialect(dialect);
  if (provider === undefined || named !== undefined)
    return {
      actionType: 'ai.infer',
      detailType: undefined,
      dialect: named,
      multipart: false,
      websocket: socket,
      known: true,
      modelNames: 'exact',
    };
  return catalogue.operation(provider, ...methodAndPath(call), socket);
}

/** The wire format of one call on a socket may be another than that of the handshake. */
function dialectOf(row: MoneyRow): Operation['dialect'] {
  const { dialect } = operationOf(row);
  return row.socket === true ? (dialect?.socket?.call ?? dialect) : dialect;
}

/** What every way to read the answer of a row finds. */
function* readings(row: MoneyRow): Generator<readonly [way: string, facts: AnswerFacts, outcome?: string]> {
  const dialect = dialectOf(row);
  const inHead = usageOfHeaders(dialect?.usage, Object.entries(row.headers ?? {}).flat());
  const withHead = (facts: AnswerFacts): AnswerFacts => (inHead === undefined ? facts : { usage: inHead, ...facts });
  const whole = wholeAnswer(row);
  if (whole !== undefined && typeof row.answer !== 'string') yield ['parsed', withHead(readUsage(dialect, row.answer))];
  if (whole !== undefined && row.socket !== true) {
    for (const pieces of cuts(whole.bytes)) {
      const reader = createAnswerReader(dialect);
      for (const piece of pieces) reader.push(piece);
      yield [`whole in ${pieces.length}`, withHead(reader.end())];
    }
  }
  const streamed = streamedAnswer(row);
  if (streamed === undefined) return;
  for (const pieces of cuts(streamed.bytes)) {
    const tap = createStreamTap(dialect, streamed.type);
    for (const piece of pieces) tap.push(piece);
    const outcome = tap.outcome;
    tap.end();
    const { usage, model } = tap;
    yield [
      `streamed in ${pieces.length}`,
      { ...(usage ? { usage } : {}), ...(model ? { model } : {}) },
      row.outcome === 'open' ? outcome : tap.outcome,
    ];
  }
}

/** In one piece, in two, in many and byte by byte. */
function cuts(bytes: Buffer): readonly (readonly Buffer[])[] {
  return [bytes.length, Math.ceil(bytes.length / 2), 61, 1].map((size) =>
    Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) => bytes.subarray(at * size, (at + 1) * size)),
  );
}

/** Parts of nothing are not told apart from none, and a pass of the call's own model names none. */
function plainCounts({ tokens_in, tokens_out, ...more }: TokenCounts): object {
  const parts = Object.entries(more).filter(([name, value]) => typeof value === 'number' && value > 0 && name.includes('tokens'));
  return { tokens_in, tokens_out, ...Object.fromEntries(parts.sort(([a], [b]) => (a < b ? -1 : 1))) };
}

function plain(usage: Usage | null | undefined): object | null {
  if (usage === null || usage === undefined) return null;
  const passes = usage.passes?.map(({ model, ...pass }: Pass) => ({ ...plainCounts(pass), model: model ?? null }));
  return { ...plainCounts(usage), units: usage.units ?? {}, terms: usage.terms ?? [], passes: passes ?? [] };
}

function expected(row: MoneyRow) {
  const { outcome = 'complete', answered, counts, by_hand, by_hand_plain = by_hand, source = 'catalogue', unpriced = [], shows = {} } = row;
  return {
    shows,
    outcome,
    answered,
    counts: plain(counts),
    cost: byHand(by_hand).stated,
    formula: byHand(by_hand_plain).stated,
    reported: counts !== null,
    source,
    unpriced,
  };
}

t.test('every recorded answer is counted and charged as it was reckoned by hand, however it comes', async (t) => {
  for (const row of rows) {
    await t.test(`${row.file}: ${row.name}`, async (t) => {
      const operation = operationOf(row);
      const named = askedFor(row);
      const model = named === undefined ? undefined : modelAsSeen(named, operation.modelNames);
      const at = cameAt(row);
      const listed = catalogue.price(row.provider, model, at);
      const price = operation.plan === true ? planPrice(listed) : listed;
      const asked = {
        catalogue,
        providerId: row.provider,
        operation,
        model,
        price,
        at,
        named: namedModels(operation, row.asks ?? {}),
      };
      const want = expected(row);
      let ways = 0;
      for (const [way, facts, outcome] of readings(row)) {
        ways++;
        const charged = chargedFor(asked, { usage: facts.usage, model: facts.model }, { price, model });
        const [metering, formula] = [true, false].map((cachedRates) => meteringFrom(charged, { reported: true, cachedRates }));
        const found = {
          shows: Object.fromEntries(Object.keys(want.shows).map((name) => [name, Reflect.get(metering ?? {}, name)])),
          outcome: outcome ?? want.outcome,
          answered: facts.model,
          counts: plain(charged.usage),
          cost: metering?.cost_usd,
          formula: formula?.cost_usd,
          reported: metering?.usage_reported,
          source: metering?.rate_source,
          unpriced: metering?.unpriced ?? [],
        };
        t.strictSame(found, want, `${way}: ${row.by_hand}`);
      }
      t.ok(ways > 0);
    });
  }
});

/** The same stream with so much beside what counts that none of its events is kept. */
function padded({ type, bytes }: { readonly type: string; readonly bytes: Buffer }): Buffer | undefined {
  const start = type.startsWith('text/event-stream') ? 'data: {' : '{';
  if (type.includes('amazon')) return undefined;
  const first = type.startsWith('application/json') ? /^(\[?)\{/gm : new RegExp(`^()${start}`, 'gm');
  return Buffer.from(String(bytes).replaceAll(first, (_, before: string) => `${before}${start}"beside":"${'x'.repeat(300_000)}",`));
}

t.test('events that are too large to keep count alike', async (t) => {
  let streams = 0;
  for (const row of rows) {
    const streamed = streamedAnswer(row);
    const bytes = streamed && padded(streamed);
    if (streamed === undefined || bytes === undefined) continue;
    streams++;
    const dialect = dialectOf(row);
    const usual = createStreamTap(dialect, streamed.type);
    usual.push(streamed.bytes);
    usual.end();
    const large = createStreamTap(dialect, streamed.type);
    for (let at = 0; at < bytes.length; at += 65_536) large.push(bytes.subarray(at, at + 65_536));
    large.end();
    t.strictSame(
      [plain(large.usage), large.model, large.outcome],
      [plain(usual.usage), usual.model, usual.outcome],
      `${row.file}: ${row.name}`,
    );
  }
  t.ok(streams > 50);
});

/** Every number that a place of the tables states, as text; of the list those of all periods and lengths. */
function ratesAt(place: string): ReadonlySet<string> {
  if (place === 'default') return new Set(['10', '30']);
  if (place === 'none') return new Set(['0']);
  const slash = place.indexOf('/');
  const [where, rest] = [place.slice(0, slash), place.slice(slash + 1)];
  if (where.endsWith('.csv')) {
    const line = readFileSync(join(DATA, where), 'utf8')
      .split('\n')
      .find((text) => text.startsWith(`${rest},`));
    return new Set(
      (line ?? '')
        .slice(rest.length)
        .split(',')
        .flatMap((cell) => (/^[a-z_]+=[\d.]+\/\d+$/.test(cell) ? cell.split(/[=/]/).slice(1) : [cell]))
        .filter((cell) => /^\d/.test(cell)),
    );
  }
  const model = catalogue.priceList.providers.find(({ id }) => id === where)?.models.find(({ id }) => id === rest);
  const prices = model === undefined ? [] : conditionalPrices(model).flatMap((one) => Object.values(one.prices));
  const inputs =
    model === undefined
      ? []
      : conditionalPrices(model)
          .map((one) => one.prices['input_mtok'])
          .filter((input) => typeof input === 'number');
  const numbers = prices.flatMap((price) => (isTiered(price) ? [price.base, ...price.tiers.map((tier) => tier.price)] : [price ?? 0]));
  // Whoever serves Anthropic's models keeps a prompt for an hour at twice the rate of input.
  const hours = /claude/i.test(rest) ? inputs.map((input) => 2 * input) : [];
  return new Set(model === undefined ? [] : [...[...numbers, ...hours].map(String), '0']);
}

t.test('the amounts are what their arithmetic comes to, and its rates are those of the tables', async (t) => {
  for (const { file, name, by_hand, by_hand_plain, rates } of rows) {
    const known = new Set([rates].flat().flatMap((place) => [...ratesAt(place)]));
    for (const text of [by_hand, by_hand_plain ?? by_hand]) {
      const { stated, reckoned, rates: used } = byHand(text);
      t.equal(stated, reckoned, `${file}: ${name}`);
      t.strictSame(
        used.filter((rate) => !known.has(rate)),
        [],
        `${file}: ${name}: rates that ${String(rates)} does not state`,
      );
    }
  }
});

t.test('there is an answer here of every wire format that counts, whole and streamed', async (t) => {
  const text = readFileSync(join(DATA, 'providers.yaml'), 'utf8').split('\noperation_sets:')[0] ?? '';
  const counting = [...text.matchAll(/^ {2}(\w+):$/gm)].flatMap(([, id = '']) => catalogue.dialect(id) ?? []).filter(({ usage }) => usage);
  t.ok(counting.length > 45);
  const shown = (has: (row: MoneyRow) => boolean): ReadonlySet<string> =>
    new Set(rows.filter((row) => row.counts !== null && has(row)).map((row) => dialectOf(row)?.id ?? ''));
  const whole = shown(({ answer }) => answer !== undefined);
  const streamed = shown((row) => streamedAnswer(row) !== undefined);
  for (const { id, streaming } of counting) {
    // Speech that is no stream of events is nothing but sound.
    if (!id.endsWith('_speech')) t.ok(whole.has(id), `${id}, whole`);
    if (streaming !== undefined) t.ok(streamed.has(id), `${id}, streamed`);
  }
});

/** The package's name of each of our counts. */
const JUDGED: Readonly<Record<string, (usage: Usage) => number | undefined>> = {
  input_tokens: (usage) => usage.tokens_in,
  output_tokens: (usage) => usage.tokens_out,
  cache_read_tokens: (usage) => usage.cached_tokens_in,
  cache_write_tokens: (usage) => usage.cache_write_tokens_in,
  cache_write_1h_tokens: (usage) => usage.cache_write_1h_tokens_in,
  input_audio_tokens: (usage) => usage.audio_tokens_in,
  output_audio_tokens: (usage) => usage.audio_tokens_out,
  cache_audio_read_tokens: (usage) => usage.cached_audio_tokens_in,
  input_image_tokens: (usage) => usage.image_tokens_in,
  output_image_tokens: (usage) => usage.image_tokens_out,
  cache_image_read_tokens: (usage) => usage.cached_image_tokens_in,
  input_video_tokens: (usage) => usage.video_tokens_in,
  output_video_tokens: (usage) => usage.video_tokens_out,
  output_reasoning_tokens: (usage) => usage.reasoning_tokens_out,
  output_citation_tokens: (usage) => usage.citation_tokens_out,
  web_searches: (usage) => usage.units?.web_searches,
  storage_searches: (usage) => usage.units?.file_searches,
  input_document_pages: (usage) => usage.units?.pages,
  input_annotated_document_pages: (usage) => usage.units?.annotated_pages,
  audio_seconds: (usage) => usage.units?.audio_seconds,
  input_text_messages: (usage) => usage.units?.text_messages,
};

t.test("the price list's package counts every recorded answer as we do, or the reason stands beside it", async (t) => {
  const all: readonly JudgeProvider[] = (await waitForUpdate()) ?? [];
  let judged = 0;
  for (const row of rows) {
    const { file, name, counts, answer, judge, judged_in, differs = {}, because } = row;
    const [id = '', flavour = ''] = judge?.split(' ') ?? [];
    const provider = all.find((one) => one.id === id);
    if (counts === null || judge === undefined || provider === undefined) {
      t.equal(judge, undefined, `${file}: ${name}: no provider ${id}`);
      continue;
    }
    judged++;
    const { usage } = extractUsage(provider, judged_in === undefined ? answer : { [judged_in]: answer }, flavour);
    t.equal(Object.keys(differs).length > 0, because !== undefined, `${file}: ${name}: a reason for each difference`);
    for (const [key, ours] of Object.entries(JUDGED)) {
      const [theirs, here] = [usage[key], ours(counts) ?? 0];
      const told = differs[key];
      if (told === undefined) t.equal(theirs ?? 0, here, `${file}: ${name}: ${key}`);
      else
        t.ok((theirs ?? null) === told && (theirs ?? 0) !== here, `${file}: ${name}: ${key} is ${theirs}, here ${here}, and not ${told}`);
    }
  }
  t.ok(judged > 100, `${judged} of ${rows.length} answers were judged`);
  t.comment(`${judged} of ${rows.length} answers judged`);
});
