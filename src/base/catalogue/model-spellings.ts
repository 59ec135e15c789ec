import type { PriceLane } from './prices/price-lane.ts';
import { candidatesOf, LONGEST_NAME } from './prices/price-names.ts';

/** Lists whose providers decorate names of models. */
const DECORATING = ['openai', 'anthropic', 'google', 'aws', 'azure', 'openrouter'];
const BY_MAKER: PriceLane = { provider: '', lists: undefined, suppliers: undefined };
const DECORATED: PriceLane = { provider: '', lists: DECORATING, suppliers: '' };
/** Only another way to write the name is taken off, whoever the provider is. */
const PLAIN: PriceLane = { provider: '', lists: DECORATING, suppliers: undefined };
/** `anthropic.` before a name at Bedrock. */
const MAKER_AT_BEDROCK = /^[a-z0-9]+\.(?=[a-z])/;

/**
 * The names that stand for the same model, of a name that somebody has laid down: without the collection, the publisher
 * or the path before it. In lower case.
 */
export function spellingsOf(model: string): ReadonlySet<string> {
  const found = new Set<string>();
  for (const { name, exact } of candidatesOf(PLAIN, folded(model), none)) if (exact) addWithoutPath(name, found);
  return found;
}

/**
 * The names of all models of which a call's model is one, as it would be sent: without snapshot, place, supplier or
 * fine-tuning. `us.anthropic.claude-sonnet-4-20250514-v1:0` is a `claude-sonnet-4`.
 */
export function modelsMeantBy(model: string): ReadonlySet<string> {
  const found = new Set<string>();
  for (const lane of [BY_MAKER, DECORATED])
    for (const { name } of candidatesOf(lane, folded(model), none)) {
      addWithoutPath(name, found);
      if (MAKER_AT_BEDROCK.test(name)) found.add(name.replace(MAKER_AT_BEDROCK, ''));
    }
  return found;
}

function addWithoutPath(name: string, found: Set<string>): void {
  found.add(name);
  const last = name.slice(name.lastIndexOf('/') + 1);
  if (last !== '') found.add(last);
}

function folded(model: string): string {
  return model.trim().toLowerCase().slice(0, LONGEST_NAME);
}

function none(): readonly string[] {
  return [];
}
