import { CONTROL_BOUNDS } from '../../base/model/org-bounds.ts';
import type { Count } from './registered.ts';

const OTHER = 'other';
/** Values that one label shows at most. Who has more orgs or connectors than that reads them from the records. */
const MAX_VALUES = CONTROL_BOUNDS.labelValues.all;

/**
 * What callers and operators name, as it may stand in a label: known names, and not too many of them (decisions 4.7,
 * 12.4).
 */
export interface LabelValues {
  org(id: string): string;
  /** @param id undefined: of no provider, which is `other` */
  provider(id: string | undefined): string;
  actionType(type: string): string;
}

export interface LabelledNames {
  org(id: string): boolean;
  provider(id: string): boolean;
  actionType(type: string): boolean;
}

/** @param folded counts, by label, what was counted under `other` */
export function labelValues(known: LabelledNames, folded: (label: string) => Count, max: number = MAX_VALUES): LabelValues {
  const [orgs, actionTypes, providers] = [
    new Shown(known.org, folded('org_id'), max),
    new Shown(known.actionType, folded('action_type'), max),
    new Shown(known.provider, folded('provider'), max),
  ];
  return {
    org: orgs.of,
    provider: (id) => (id === undefined ? OTHER : providers.of(id)),
    actionType: actionTypes.of,
  };
}

/** The values that one label has shown. */
class Shown {
  readonly #known: (value: string) => boolean;
  readonly #folded: Count;
  readonly #max: number;
  readonly #values = new Set<string>();

  constructor(known: (value: string) => boolean, folded: Count, max: number) {
    this.#known = known;
    this.#folded = folded;
    this.#max = max;
  }

  readonly of = (value: string): string => {
    if (this.#values.has(value)) return value;
    if (this.#values.size < this.#max && this.#known(value)) {
      this.#values.add(value);
      return value;
    }
    this.#folded.inc();
    return OTHER;
  };
}
