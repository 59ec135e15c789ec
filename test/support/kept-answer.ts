const ITEMS = 2;
const TIME = /^20(?:2\d|3\d)-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g;
const HASH = /^[0-9a-f]{64}$/;
const ETAG = /^"[0-9a-f]{32}"$/;
const SECONDS = /(T\d\d:\d\d):\d\d\.\d{3}Z/g;
/** Milliseconds that a call took. */
const TOOK: ReadonlyMap<string, number> = new Map([
  ['latency_ms', 34.714],
  ['upstream_latency_ms', 10.172],
]);

/** An answer as an example is kept: what differs in each run is made up, and the same wherever it comes again. */
export function keptAnswer(): (answer: unknown) => unknown {
  const uuids = new Map<string, string>();
  const hashes = new Map<string, string>();
  const numbered = (seen: Map<string, string>, value: string, made: (at: number) => string): string => {
    const known = seen.get(value) ?? made(seen.size + 1);
    seen.set(value, known);
    return known;
  };
  const text = (value: string): string => {
    if (TIME.test(value)) return '2026-11-21T12:00:00.000Z';
    if (HASH.test(value)) return numbered(hashes, value, (at) => String(at).padStart(64, '0').replaceAll('0', 'e'));
    if (ETAG.test(value)) return '"5f1c0d3a9b7e4c2881d6a0b3c4d5e6f7"';
    return value
      .replace(UUID, (uuid) => numbered(uuids, uuid, (at) => `0197a0c0-0000-7000-8000-${String(at).padStart(12, '0')}`))
      .replace(SECONDS, '$1:00.000Z')
      .replace(/\b(mgk|mcpk|gwt)_[\w-]{43}/g, (_key, kind: string) => `${kind}_${'EXAMPLE-'.repeat(6).slice(0, 43)}`)
      .replace(/\b(mgk|mcpk)_[\w-]{12}$|\bmgk_[\w-]{11}$/g, () => 'mgk_EXAMPLE-EXAM')
      .replace(/127\.0\.0\.1:\d+/g, '127.0.0.1:7080');
  };
  const keep = (value: unknown): unknown => {
    if (typeof value === 'string') return text(value);
    if (Array.isArray(value)) return value.slice(0, ITEMS).map(keep);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, one]) => [text(name), typeof one === 'number' ? (TOOK.get(name) ?? one) : keep(one)]),
    );
  };
  return keep;
}
