/*
 * The price list's own package judges the prices: every name that it knows costs here what it says, at every time and
 * length that makes a difference, or a correction with its reason says otherwise.
 */
import { calcPrice, type Provider as JudgeProvider, waitForUpdate } from '@pydantic/genai-prices';
import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import { Periods } from '../../../src/base/catalogue/price-list/list-periods.ts';
import { conditionalPrices, isTiered, type ListModel } from '../../../src/base/catalogue/price-list/list-shape.ts';
import type { Provider } from '../../../src/base/catalogue/types.ts';
import type { Usage } from '../../../src/base/model/usage.ts';
import { meter } from '../../../src/decide/pricing/cost.ts';
import { namesOf } from '../../support/price-names.ts';

const catalogue = loadCatalogue();
const NOW = Date.UTC(2026, 10, 26, 12);
const DAY = 86_400_000;

/**
 * Our usage, and the same as the package takes it: there a whole includes its parts, and pages with annotations are
 * pages.
 */
interface Used {
  readonly ours: Usage;
  readonly theirs: Record<string, number>;
}

/**
 * What the package has no rate for and we do, so that it is no judge of it: one-hour writes of Anthropic's models,
 * which cost twice the input wherever they are served, and searches that a maker bills for alike with every model,
 * though the list says so of some.
 */
interface Unjudged {
  readonly hour: boolean;
  readonly searches: boolean;
}

function unjudgedOf({ id, match: _, ...model }: ListModel): Unjudged {
  const has = (key: string): boolean => JSON.stringify(model).includes(`"${key}"`);
  return { hour: /claude/i.test(id) && !has('cache_write_1h_mtok'), searches: !has('web_searches_kcount') };
}

function used(tokensIn: number, tokensOut: number, parts: 'none' | 'cache' | 'kinds' | 'units', unjudged: Unjudged): Used {
  const share = (of: number, part: number): number => Math.floor((of * part) / 100);
  const counts = { tokens_in: tokensIn, tokens_out: tokensOut };
  const whole = { input_tokens: tokensIn, output_tokens: tokensOut };
  if (parts === 'none') return { ours: counts, theirs: whole };
  if (parts === 'cache') {
    const [cached, written, hour] = [share(tokensIn, 30), share(tokensIn, 20), unjudged.hour ? 0 : share(tokensIn, 7)];
    return {
      ours: { ...counts, cached_tokens_in: cached, cache_write_tokens_in: written, cache_write_1h_tokens_in: hour },
      theirs: { ...whole, cache_read_tokens: cached, cache_write_tokens: written, cache_write_1h_tokens: hour },
    };
  }
  if (parts === 'kinds') {
    const [cached, audio, image, video] = [share(tokensIn, 40), share(tokensIn, 25), share(tokensIn, 20), share(tokensIn, 10)];
    const [cachedAudio, cachedImage] = [share(tokensIn, 11), share(tokensIn, 13)];
    const [audioOut, imageOut, videoOut, reasoning, citation] = [30, 20, 10, 15, 5].map((part) => share(tokensOut, part)) as [
      number,
      number,
      number,
      number,
      number,
    ];
    return {
      ours: {
        ...counts,
        cached_tokens_in: cached,
        audio_tokens_in: audio,
        image_tokens_in: image,
        video_tokens_in: video,
        cached_audio_tokens_in: cachedAudio,
        cached_image_tokens_in: cachedImage,
        audio_tokens_out: audioOut,
        image_tokens_out: imageOut,
        video_tokens_out: videoOut,
        reasoning_tokens_out: reasoning,
        citation_tokens_out: citation,
      },
      theirs: {
        ...whole,
        cache_read_tokens: cached,
        input_audio_tokens: audio,
        input_image_tokens: image,
        input_video_tokens: video,
        cache_audio_read_tokens: cachedAudio,
        cache_image_read_tokens: cachedImage,
        output_audio_tokens: audioOut,
        output_image_tokens: imageOut,
        output_video_tokens: videoOut,
        output_reasoning_tokens: reasoning,
        output_citation_tokens: citation,
      },
    };
  }
  const searches = unjudged.searches ? 0 : 3;
  return {
    ours: {
      ...counts,
      units: {
        web_searches: searches,
        file_searches: 5,
        social_searches: 7,
        search_units: 2,
        pages: 15,
        annotated_pages: 4,
        audio_seconds: 7.25,
        text_messages: 6,
      },
    },
    theirs: {
      ...whole,
      web_searches: searches,
      storage_searches: 5,
      social_searches: 7,
      rerank_searches: 2,
      input_document_pages: 15,
      input_annotated_document_pages: 4,
      audio_seconds: 7.25,
      input_audio_seconds: 7.25,
      input_text_messages: 6,
    },
  };
}

/** Lengths of prompts on both sides of every limit of a model's, and moments on both sides of every change. */
function casesOf(model: ListModel): { readonly usages: readonly Used[]; readonly moments: readonly number[] } {
  const conditions = conditionalPrices(model);
  const unjudged = unjudgedOf(model);
  const starts = conditions.flatMap(({ prices }) =>
    Object.values(prices).flatMap((price) => (isTiered(price) ? price.tiers.map(({ start }) => start) : [])),
  );
  const lengths = [997, ...new Set(starts.flatMap((start) => [start - 1, start, start + 1]))];
  const usages = [
    used(0, 0, 'none', unjudged),
    used(1, 1, 'none', unjudged),
    used(997, 1003, 'units', unjudged),
    ...lengths.flatMap((length) => [used(length, 1003, 'cache', unjudged), used(length, 1003, 'kinds', unjudged)]),
  ];
  const periods = new Periods(conditions);
  const edges = conditions.flatMap(({ constraint }, i) => {
    if (constraint === undefined) return [];
    const start = periods.momentOf(i);
    if (constraint.type === 'start_date') return [start - 1, start, start + DAY / 2];
    const end = Date.parse(`${new Date(start).toISOString().slice(0, 10)}T${constraint.end_time}`);
    return [start - 1, start, start + 1, end - 1, end, end + 1, start + 5 * 365 * DAY];
  });
  return { usages, moments: [NOW, ...edges] };
}

interface Tally {
  names: number;
  priced: number;
  alike: number;
  corrected: Set<string>;
  readonly wrong: string[];
}

/** @param name what is asked of the package, @param asked the same as the provider is called with it */
function judge(tally: Tally, provider: Provider, judged: JudgeProvider, name: string, asked: string): void {
  const find = (usage: Record<string, number>, at: number) => calcPrice(usage, name, { providerId: judged.id, timestamp: new Date(at) });
  const known = find({ input_tokens: 1 }, NOW);
  if (known === null) return;
  tally.names++;
  const { from } = catalogue.explainPrice(provider.id, asked, NOW);
  if (from !== 'default') tally.priced++;
  let isAlike = true;
  const { usages, moments } = casesOf(known.model as ListModel);
  for (const at of moments) {
    const price = catalogue.price(provider.id, asked, at);
    if (catalogue.explainPrice(provider.id, asked, at).from === 'correction') {
      tally.corrected.add(`${provider.id} ${asked}`);
      isAlike = false;
      continue;
    }
    for (const { ours, theirs } of usages) {
      const cost = Number(meter(ours, price, true).costPico) / 1e12;
      const wanted = find(theirs, at)?.total_price ?? Number.NaN;
      if (Math.abs(cost - wanted) <= 1e-9 * Math.abs(wanted) + 1e-11) continue;
      isAlike = false;
      tally.wrong.push(
        `${provider.id} ${asked} at ${new Date(at).toISOString()}: ${cost}, and not ${wanted}, for ${JSON.stringify(theirs)}`,
      );
      break;
    }
  }
  if (isAlike) tally.alike++;
}

function emptyTally(): Tally {
  return { names: 0, priced: 0, alike: 0, corrected: new Set(), wrong: [] };
}

function namesIn({ models }: JudgeProvider): readonly string[] {
  return [...new Set(models.flatMap(({ id, match }) => [id, ...namesOf(match as ListModel['match'])]))];
}

async function lists(): Promise<readonly JudgeProvider[]> {
  return (await waitForUpdate()) ?? [];
}

t.test('every name that the package knows costs what it says, or a correction says why not', async (t) => {
  const all = await lists();
  const whole = emptyTally();
  for (const judged of all) {
    for (const provider of catalogue.providers.filter(({ priceLists }) => priceLists.includes(judged.id))) {
      const before = provider.priceLists.slice(0, provider.priceLists.indexOf(judged.id));
      const tally = emptyTally();
      for (const name of namesIn(judged)) {
        const isElsewhere =
          provider.priceSuppliers === undefined && before.some((id) => catalogue.priceList.find(id, name.toLowerCase()) !== undefined);
        const supplier = provider.priceSuppliers === undefined ? '' : `:${judged.id.slice(provider.priceSuppliers.length)}`;
        if (!isElsewhere) judge(tally, provider, judged, name, name + supplier);
      }
      t.strictSame(tally.wrong, [], `${provider.id} by ${judged.id}`);
      whole.names += tally.names;
      whole.priced += tally.priced;
      whole.alike += tally.alike;
      for (const name of tally.corrected) whole.corrected.add(name);
    }
  }
  t.equal(whole.priced, whole.names, 'none is at the default price');
  t.equal(whole.alike + whole.corrected.size, whole.names);
  t.comment(`${whole.names} names, ${whole.priced} priced, ${whole.alike} alike, corrected: ${[...whole.corrected].sort().join(', ')}`);
  t.ok(whole.names > 2500);
});
