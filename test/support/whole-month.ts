const HOUR_MS = 3_600_000;
/** Longer than any file runs. */
const MARGIN_MS = 2 * HOUR_MS;
/** Less than the day by which certificates are older than they are. */
const LATER_MS = 3 * HOUR_MS;

/**
 * For the environment of gateways that are processes and whose spend is counted: budgets and totals of a month begin
 * anew with the next one. In the last hours of a month such a gateway lives some hours later, else by the clock of the
 * machine. Found once, so that all gateways of a file have the same month.
 */
export const WHOLE_MONTH: Readonly<Record<string, string>> = environmentAt(Date.now());

/** Milliseconds since the epoch of which month a gateway with that environment is in, at a moment of the machine's. */
export function environmentAt(nowMs: number): Record<string, string> {
  const at = new Date(nowMs);
  if (Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + 1) - nowMs > MARGIN_MS) return {};
  const later = `const{now}=Date;Date.now=()=>now()+${LATER_MS}`;
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(later)}` };
}
