import { openPriceList } from '../price-list/open-list.ts';
import type { PriceList } from '../price-list/price-list.ts';
import type { RowProblems } from '../row-reader.ts';
import type { Provider } from '../types.ts';
import { laneOf } from './price-lane.ts';
import { PriceTable } from './price-table.ts';
import { PriceTerms } from './price-terms.ts';
import { RateList } from './rate-list.ts';
import { MaxOutputs, readCorrections, readOwnRows } from './shipped-rows.ts';

/** Texts of the tables of prices, where they are not those that are shipped. */
export interface PriceTexts {
  readonly prices?: string;
  readonly priceCorrections?: string;
  readonly priceList?: string;
  readonly priceTerms?: string;
  readonly maxOutputs?: string;
}

/** @param open gives the text of a table, the shipped one where none is given, and notes its mistakes */
export function loadPrices(
  providers: readonly Provider[],
  texts: PriceTexts,
  open: (name: string, given: string | undefined) => readonly [text: string, problems: RowProblems],
): PriceTable {
  const known = new Set(providers.map(({ id }) => id));
  const isKnown = (id: string): boolean => known.has(id);
  const [own, ownProblems] = open('prices.csv', texts.prices);
  const [corrections, correctionProblems] = open('price-corrections.csv', texts.priceCorrections);
  const [terms, termProblems] = open('price-terms.csv', texts.priceTerms);
  const [outputs, outputProblems] = open('max-outputs.csv', texts.maxOutputs);
  return new PriceTable({
    overrides: new RateList(),
    corrections: readCorrections(corrections, isKnown, correctionProblems),
    list: listOf(...open('price-list.json', texts.priceList)),
    own: readOwnRows(own, isKnown, ownProblems),
    outputs: MaxOutputs.parse(outputs, outputProblems),
    terms: PriceTerms.parse(terms, termProblems),
    lanes: providers.map(laneOf),
  });
}

function listOf(text: string, problems: RowProblems): PriceList {
  const opened = openPriceList(text, { file: problems.file, regexes: false });
  for (const { path, message } of opened.problems) problems.add(path, message);
  return opened.list;
}
