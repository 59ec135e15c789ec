import { eventually } from './child.ts';
import type { GatewayProcess } from './gateway-process.ts';

export type SaidHealth = Readonly<Record<string, unknown>>;

/** What `/healthz` says. */
export async function healthOf(gateway: GatewayProcess): Promise<SaidHealth> {
  return (await gateway.admin('GET', '/healthz')).body as SaidHealth;
}

/** Waits for it to say so. @param limitMs default: that of `eventually` */
export function becomes(gateway: GatewayProcess, what: SaidHealth, limitMs?: number): Promise<SaidHealth> {
  return eventually(
    `/healthz with ${JSON.stringify(what)}`,
    async () => {
      const health = await healthOf(gateway);
      return Object.entries(what).every(([name, value]) => health[name] === value) ? health : undefined;
    },
    limitMs,
  );
}
