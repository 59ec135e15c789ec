import type { ListDiff, ListedModel, RateChange } from '../../base/catalogue/price-list/list-diff.ts';
import { memberChange } from '../registers/audit-changes.ts';
import type { ToldChanges } from '../registers/commit.ts';

/** As the audit trail names what a price list says. */
const PRICE = 'price';
/** Of a model that a list has. */
const LISTED = 'listed';

/**
 * What the audit trail tells of a price list that takes the place of another: each rate that holds from now on, before
 * and after, then models that are gone and new. What is held waits, and is told when somebody says yes.
 */
export function pricesTold({ added, removed, changed }: ListDiff): ToldChanges {
  return () => [
    ...changed.filter(({ held }) => !held).map((rate) => memberChange(PRICE, rateName(rate), { before: rate.old, after: rate.new })),
    ...removed.map((model) => memberChange(PRICE, modelName(model), { before: LISTED, after: undefined })),
    ...added.map((model) => memberChange(PRICE, modelName(model), { before: undefined, after: LISTED })),
  ];
}

function modelName({ provider, model }: ListedModel): string {
  return `${provider}/${model}`;
}

function rateName({ key, above, ...model }: RateChange): string {
  return `${modelName(model)} ${key}${above === undefined ? '' : ` above ${above}`}`;
}
