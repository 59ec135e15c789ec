/** An object of parsed JSON or YAML; read it by own properties only (decision 4.7). */
export type JsonObject = Readonly<Record<string, unknown>>;

/** An object that is neither null nor a list. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
