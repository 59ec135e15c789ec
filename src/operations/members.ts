/*
 * What members of bodies and queries are made of, with the words in which a mistake is told. A rule stands in a schema,
 * and nowhere else.
 */

import { z } from 'zod';
import { isJsonObject } from '../base/json/json-object.ts';

const ID = /^[\x21-\x7e]{1,128}$/;
const ID_RULE = 'must be 1 to 128 visible ASCII characters';
const MAX_TEXT = 256;

/** An id: 1 to 128 visible ASCII characters. */
export const id = z.string(ID_RULE).regex(ID, ID_RULE);

/** True of an {@link id}; for rules that hold of ids alone. */
export function isId(value: unknown): value is string {
  return typeof value === 'string' && ID.test(value);
}

/** The same, where leaving it out is told in other words. */
export function requiredId(missing = `is required: 1 to 128 visible ASCII characters`): typeof id {
  return z.string({ error: ({ input }) => (input === undefined ? missing : ID_RULE) }).regex(ID, ID_RULE);
}

/** Text without halves of characters, at most 256 code units. */
export const text = textOf(MAX_TEXT);

/** The same, not empty. */
export const textThere = z
  .string({ error: ({ input }) => (input === undefined ? 'is required' : `must be text of 1 to ${MAX_TEXT} characters`) })
  .min(1, 'must not be empty')
  .max(MAX_TEXT, `must be text of 1 to ${MAX_TEXT} characters`)
  .refine((value) => value.isWellFormed(), `must be text of 1 to ${MAX_TEXT} characters`);

function textOf(maxLength: number) {
  const rule = `must be text of at most ${maxLength} characters`;
  return z
    .string(rule)
    .max(maxLength, rule)
    .refine((value) => value.isWellFormed(), rule);
}

/** A text, or null for none; an empty text says the same where null cannot be said. */
export function orNothing(schema: z.ZodString): z.ZodType<string | null, string | null> {
  return z.preprocess((value) => (value === '' ? null : value), schema.nullable());
}

/** One of these words. */
export function choice<const T extends readonly string[]>(words: T): z.ZodEnum<{ [K in T[number]]: K }> {
  return z.enum(words, `must be one of ${words.join(', ')}`);
}

export function wholeNumber(min: number, max: number): z.ZodNumber {
  const rule = `must be a whole number from ${min} to ${max}`;
  return z.number(rule).refine(Number.isInteger, rule).min(min, rule).max(max, rule).meta({ type: 'integer' });
}

const POSITIVE_RULE = 'must be a number greater than 0';
/** A finite number greater than 0. */
export const positive = z.number(POSITIVE_RULE).positive(POSITIVE_RULE);

/** An object that has these members and no others (decision 8.4). */
export function members<S extends z.core.$ZodLooseShape>(shape: S): z.ZodObject<S, z.core.$strict> {
  return z.strictObject(shape, {
    error: ({ code }) => (code === 'unrecognized_keys' ? 'is not a member of this body' : 'must be an object'),
  });
}

/** A value with one rule, whose mistakes are told of the whole and not of its parts. */
export function ruled<T>(fits: (value: unknown) => boolean, rule: string): z.ZodCustom<T, T> {
  return z.custom<T>(fits, { error: rule, abort: false });
}

/**
 * For rules about several members: they are asked even when one of these is wrong, so each looks at what it reads. No
 * schema aborts (`z.int` and a bare `z.custom` do): zod would then not ask them, and a caller would not be told of all
 * mistakes at once.
 */
export const ALSO_WHEN_WRONG = { when: ({ value }: { readonly value: unknown }): boolean => isJsonObject(value) };

/** Only what is there: a store and an answer tell what was left out from what is empty. */
export function optional<K extends string, V>(key: K, value: V | undefined): { [P in K]?: V } {
  return value === undefined ? {} : ({ [key]: value } as { [P in K]?: V });
}
