/*
 * Attributes as OTLP writes them in JSON (its protocol buffers in their JSON form: 64-bit numbers are texts). They are
 * joined as text: objects of them, which JSON.stringify would go through, cost three times as much. Each ends with a
 * comma; `closed` takes the last one away.
 */

/** Values a stranger chose may be long. */
const MAX_TEXT = 1_024;

function quoted(text: string): string {
  return JSON.stringify((text.length > MAX_TEXT ? text.slice(0, MAX_TEXT) : text).toWellFormed());
}

export function text(key: string, value: string | undefined): string {
  return value === undefined || value === '' ? '' : `{"key":"${key}","value":{"stringValue":${quoted(value)}}},`;
}

export function whole(key: string, value: number | undefined): string {
  return value === undefined ? '' : `{"key":"${key}","value":{"intValue":"${value}"}},`;
}

/** @param value a finite one */
export function double(key: string, value: number | undefined): string {
  return value === undefined ? '' : `{"key":"${key}","value":{"doubleValue":${value}}},`;
}

/** What is false is not said. */
export function flag(key: string, value: boolean | undefined): string {
  return value === true ? `{"key":"${key}","value":{"boolValue":true}},` : '';
}

export function texts(key: string, values: readonly string[] | undefined): string {
  if (values === undefined || values.length === 0) return '';
  return `{"key":"${key}","value":{"arrayValue":{"values":[${values.map((value) => `{"stringValue":${quoted(value)}}`).join()}]}}},`;
}

/** A list of them. */
export function closed(attributes: string): string {
  return `[${attributes.slice(0, -1)}]`;
}

/** A name of a span, as JSON text. */
export const nameText = quoted;
