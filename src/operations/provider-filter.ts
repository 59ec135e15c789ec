import type { z } from 'zod';
import { canonicalConnectorId } from '../base/catalogue/connector-id.ts';
import { text } from './members.ts';
import type { OperationServices } from './services.ts';

/**
 * The parameter by which a list is narrowed to a provider: by its id, neutral name or an alias, in any letter case
 * (decision 1). A name that nobody has finds nothing.
 */
export function providerFilter({ trust }: Pick<OperationServices, 'trust'>): z.ZodType<string | undefined, string | undefined> {
  return text
    .transform((name) => canonicalConnectorId(trust.catalogues.current(), name) ?? name.toLowerCase())
    .optional()
    .meta({ type: 'string', description: 'Such as openai, or custom:<id>' });
}
