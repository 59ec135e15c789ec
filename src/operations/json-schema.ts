import { z } from 'zod';

/**
 * A parameter is text on its way; what it means is told as the type of its value, of which the rules of the text are none.
 * `output`: members may come to it, so others than those that are told are not excluded.
 */
export function jsonSchema(schema: z.ZodType, of: 'input' | 'output'): z.core.JSONSchema.BaseSchema {
  const { $schema: _dialect, ...made } = z.toJSONSchema(schema, {
    io: of,
    unrepresentable: 'any',
    override: ({ jsonSchema: part, zodSchema }) => {
      if (of === 'output' && zodSchema._zod.def.type === 'object' && part.additionalProperties === false) delete part.additionalProperties;
      if (part.type === 'boolean') delete part.enum;
      if (part.type === 'integer') delete part.pattern;
    },
  });
  return made;
}
