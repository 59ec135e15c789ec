import type { GatewayClient } from './gateway-client.ts';

const AT_ONCE = 500;

/** The items of a list of a running gateway, page by page, at most `most`. @throws as `GatewayClient.json` */
export async function* eachItem(gateway: GatewayClient, path: string, query: URLSearchParams, most: number): AsyncGenerator<unknown> {
  const parameters = new URLSearchParams(query);
  for (let left = most; left > 0; ) {
    parameters.set('limit', String(Math.min(left, AT_ONCE)));
    const { items, next_page_token: next } = (await gateway.json('GET', `${path}?${parameters}`)) as {
      readonly items: readonly unknown[];
      readonly next_page_token: string | null;
    };
    yield* items;
    left -= items.length;
    if (next === null) return;
    parameters.set('page_token', next);
  }
}
