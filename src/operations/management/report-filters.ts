/* By which calls a cost report is narrowed (decision 6.18). */
import { z } from 'zod';
import { COST_KEYS, type CostFilter } from '../../services/reports/cost-report.ts';
import { text } from '../members.ts';
import { providerFilter } from '../provider-filter.ts';
import type { OperationServices } from '../services.ts';

const LABEL_RULE = 'must be NAME=VALUE, such as team=red';

const name = text.optional();

function parameters(services: Pick<OperationServices, 'trust'>) {
  return {
    project: name.meta({ description: 'Only calls of it; empty: those without' }),
    customer: name,
    account: name,
    caller: name,
    workload: name,
    provider: providerFilter(services).meta({ description: 'Its id' }),
    model: name.meta({ description: 'Whole name' }),
    label: z
      .string()
      .refine((given) => given.indexOf('=') > 0, LABEL_RULE)
      .optional()
      .meta({ description: 'NAME=VALUE', examples: ['team=red'] }),
  };
}

/** Parameters of a query: each is one name; an empty one means calls that had none. */
export function filterParameters(services: Pick<OperationServices, 'trust'>): ReturnType<typeof parameters> {
  return parameters(services);
}

type FilterQuery = { readonly [K in (typeof COST_KEYS)[number] | 'label']?: string | undefined };

/** Those that were given. */
export function filtersOf(query: FilterQuery): readonly CostFilter[] {
  const filters: CostFilter[] = COST_KEYS.flatMap((key) => (query[key] === undefined ? [] : [{ key, name: query[key] }]));
  const at = query.label?.indexOf('=') ?? -1;
  return query.label === undefined || at < 1
    ? filters
    : [...filters, { key: `label:${query.label.slice(0, at)}`, name: query.label.slice(at + 1) }];
}
