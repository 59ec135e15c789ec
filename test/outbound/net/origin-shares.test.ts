import { startPlainUpstream } from '../../support/tls-upstream.ts';
import { at, collect, eachClient, events, fill, until } from '../../support/upstream-calls.ts';

/** Answers nothing below `/slow` before it is told to. */
async function slowUpstream(t: { teardown(end: () => unknown): void }) {
  const held: (() => void)[] = [];
  const server = await startPlainUpstream((request, response) => {
    if (request.url?.startsWith('/slow')) held.push(() => void response.end('late'));
    else response.end('ok');
  });
  t.teardown(() => server.close());
  return { server, held };
}

// Holds: orgs-change-no-others-traffic
eachClient('an org that waits for slow answers leaves connections to others, and within it a caller to others', async (t, openUpstream) => {
  const { server, held } = await slowUpstream(t);
  const upstream = openUpstream(t, { maxConnections: 12, maxWaiting: 12 });
  const errors: string[] = [];
  let ended = 0;
  const slow = (org: string | undefined, client: string): void => {
    const request = { authority: at(server), path: '/slow', client, ...(org === undefined ? {} : { org }) };
    upstream.call(fill(request), events({ onEnd: () => void ended++, onError: ({ message }) => void errors.push(message) }));
  };
  for (let call = 0; call < 40; call++) slow('acme', 'one');
  await until(() => errors.length === 32 && held.length === 4);
  t.same([held.length, errors.length], [4, 40 - 4 - 4], 'one caller has a third of the connections, and of the places to wait');
  t.match(errors[0], /Too many calls of this caller/);
  for (let call = 0; call < 40; call++) slow('acme', `client ${call}`);
  await until(() => held.length === 6 && errors.some((message) => message.includes('of this org')));
  for (const org of ['other', 'third']) {
    const answered = await collect(upstream, { authority: at(server), org, client: 'one' });
    t.match(answered, { body: 'ok', error: undefined }, `${org} is answered at once`);
  }
  t.match(await collect(upstream, { authority: at(server) }), { body: 'ok' }, 'and so is the gateway itself');
  // All that wait are served, each when one of its org has ended.
  const all = 80 - errors.length;
  await until(() => {
    for (const end of held.splice(0)) end();
    return ended === all;
  });
  t.match(await collect(upstream, { authority: at(server), org: 'acme', client: 'one' }), { body: 'ok' }, 'no place is lost');
});

eachClient('orgs that callers make up are one org, whose callers are addresses', async (t, openUpstream) => {
  const { server, held } = await slowUpstream(t);
  const upstream = openUpstream(t, { maxConnections: 12, maxWaiting: 400, isKnownOrg: (org) => org === 'acme' });
  for (let call = 0; call < 100; call++)
    upstream.call(fill({ authority: at(server), path: '/slow', org: `made-up-${call}`, client: '192.0.2.1' }), events({}));
  await until(() => held.length === 4);
  t.match(await collect(upstream, { authority: at(server), org: 'acme', client: '192.0.2.9' }), { body: 'ok' });
  t.match(await collect(upstream, { authority: at(server), org: 'made-up-0', client: '192.0.2.9' }), { body: 'ok' }, 'another address');
  t.equal(held.length, 4);
});
