// What each chat and a mail are made of: nothing that strangers chose is markup, calls anybody, or is longer than the
// product takes.
import t from 'tap';
import type { AlertCard } from '../../../src/outbound/destinations/alert-card.ts';
import { own, said } from '../../../src/outbound/destinations/alert-card.ts';
import { alertMail } from '../../../src/outbound/destinations/alert-mail.ts';
import { CHAT_WEBHOOKS } from '../../../src/outbound/destinations/chat-webhooks.ts';

const HOSTILE = '<!channel> @everyone <users/all> [click](https://evil.example) *bold* `code` \r\nBcc: x@y.example & "quotes"';

function card(more: Partial<AlertCard> = {}): AlertCard {
  return {
    alertId: '01a20d73-3c83-7120-9836-6d2f60069421',
    title: HOSTILE,
    tone: 'warning',
    text: HOSTILE,
    facts: [{ name: 'reason', value: HOSTILE }],
    command: 'gw approvals approve 1',
    at: '2026-11-24T12:00:00.000Z',
    ...more,
  };
}

const LONG = 'x😀'.repeat(40_000);
const HUGE = card({
  title: LONG,
  text: LONG,
  command: LONG.slice(0, 1_500),
  facts: Array.from({ length: 60 }, (_, at) => ({ name: `name ${at}`, value: LONG.slice(0, 3_000) })),
});

t.test('Slack: what could call everybody is text', async (t) => {
  const text = JSON.stringify(CHAT_WEBHOOKS.slack.message(card()));
  t.notMatch(text, '<!channel>');
  t.match(text, '"text":"&lt;!channel&gt; \\\\u{40}everyone', 'also where text is searched for names, and links are made of addresses');
  t.match(text, 'https\\\\u{3a}//evil.example');
  t.match(text, '\\\\u{2a}bold\\\\u{2a}', 'receivers that take its form read Markdown');
  const markup = text.match(/"type":"mrkdwn","text":"[^"]*"/g);
  t.same(markup, ['"type":"mrkdwn","text":"```gw approvals approve 1```"'], 'markup is what is ours alone');
});

t.test('Discord: nobody is called, and markup is text', async (t) => {
  const message = CHAT_WEBHOOKS.discord.message(card());
  t.match(message, { allowed_mentions: { parse: [] } });
  t.match(JSON.stringify(message), '\\\\[click\\\\]\\\\(https\\\\:');
});

t.test('Teams: all texts are runs, in which nothing is markup', async (t) => {
  const text = JSON.stringify(CHAT_WEBHOOKS.teams.message(card()));
  t.match(text, '"type":"TextRun","text":"<!channel>');
  t.notMatch(text, /"type":"TextBlock"|https:\/\/evil/);
  const dated = JSON.stringify(CHAT_WEBHOOKS.teams.message(card({ text: '{{DATE(2026-01-01T00:00:00Z, SHORT)}}' })));
  t.notMatch(dated, /\{\{/, 'no text is a function of a card');
});

t.test('Google Chat: nothing of an alert stands where it could call somebody', async (t) => {
  const message = CHAT_WEBHOOKS.google_chat.message(card()) as Record<string, unknown>;
  t.same(Object.keys(message), ['cardsV2']);
  t.match(JSON.stringify(message), '&lt;users/all&gt;');
});

t.test('what is too long is cut to what the products take, in whole characters', async (t) => {
  const discord = CHAT_WEBHOOKS.discord.message(HUGE) as {
    embeds: { title: string; description: string; fields: { name: string; value: string }[] }[];
  };
  const [embed = { title: '', description: '', fields: [] }] = discord.embeds;
  const length =
    embed.title.length + embed.description.length + embed.fields.reduce((sum, { name, value }) => sum + name.length + value.length, 0);
  t.ok(length <= 6_000 && embed.title.length <= 256 && embed.fields.length <= 25, String(length));
  const slack = CHAT_WEBHOOKS.slack.message(HUGE) as {
    attachments: { blocks: { text?: { text: string }; fields?: { text: string }[] }[] }[];
  };
  for (const { text, fields = [] } of slack.attachments[0]?.blocks ?? []) {
    t.ok((text?.text.length ?? 0) <= 3_000 && fields.length <= 10 && fields.every((field) => field.text.length <= 2_000));
  }
  t.ok(Buffer.byteLength(JSON.stringify(CHAT_WEBHOOKS.teams.message(card({ ...HUGE, facts: HUGE.facts.slice(0, 15) })))) < 28_000);
  t.ok(Buffer.byteLength(JSON.stringify(CHAT_WEBHOOKS.google_chat.message(card({ ...HUGE, facts: HUGE.facts.slice(0, 15) })))) < 32_000);
  for (const { message } of Object.values(CHAT_WEBHOOKS)) t.ok(JSON.stringify(message(HUGE)).isWellFormed());
});

t.test('a product has taken an alert unless it says in its own way that it has not', async (t) => {
  const answer = (status: number, body = '') => ({ status, body, headers: new Map<string, string>() });
  const taken: Readonly<Record<keyof typeof CHAT_WEBHOOKS, readonly (readonly [status: number, body?: string])[]>> = {
    // Slack, a workflow of Slack, Mattermost, Rocket.Chat, a receiver that says nothing, one that echoes.
    slack: [
      [200, 'ok'],
      [200, '{"ok":true}'],
      [200, 'ok\n'],
      [200, '{"success":true}'],
      [200],
      [204],
      [201, '{"result":"success"}'],
      [202, 'queued'],
      [200, '{"success":true,"error":""}'],
      [200, '{"error":{},"data":null}'],
      [200, '{"code":0,"message":"success"}'],
    ],
    teams: [[202], [200, '1'], [200], [204]],
    discord: [[204], [200, '{"id":"1","content":""}'], [200]],
    google_chat: [[200, '{"name":"spaces/S/messages/M","error":null}'], [200], [201, '{}']],
  };
  const refused: typeof taken = {
    slack: [
      [200, '{"ok":false,"error":"channel_not_found"}'],
      [200, '{"success":false,"error":"invalid-channel"}'],
      [200, 'invalid_payload'],
      [200, 'no_text'],
      [200, 'channel_is_archived'],
      [200, '<!DOCTYPE html><title>Sign in</title>'],
      [200, '<html>'],
    ],
    teams: [
      [200, 'Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 429'],
      [200, '{"error":{"code":"InvalidRequestContent","message":"…"}}'],
      [200, '<html>'],
    ],
    discord: [[200, '{"code":50035,"message":"Invalid Form Body"}']],
    google_chat: [[200, '{"error":{"code":400,"message":"…","status":"INVALID_ARGUMENT"}}']],
  };
  for (const kind of Object.keys(taken) as (keyof typeof taken)[]) {
    for (const [status, body] of taken[kind])
      t.equal(CHAT_WEBHOOKS[kind].isTaken(answer(status, body)), true, `${kind}: ${status} ${body ?? ''}`);
    for (const [status, body] of refused[kind]) t.equal(CHAT_WEBHOOKS[kind].isTaken(answer(status, body)), false, `${kind}: ${body ?? ''}`);
  }
});

t.test('a mail has no line that a text of a stranger made', async (t) => {
  const { subject, text } = alertMail(card());
  t.notMatch(subject, /[\r\n]/);
  t.notMatch(text, /^Bcc:/m);
  t.match(text, 'https\\u{3a}//evil\\u{2e}example', 'no link is made of it');
  t.match(text, 'x\\u{40}y\\u{2e}example');
});

t.test('what is ours is shown as it is, what is theirs between it is not', async (t) => {
  const text = said`Approval needed to ${own('api.openai.com')}: ${'see https://evil.example *now*\u202e'}`;
  t.match(alertMail(card({ text })).text, 'Approval needed to api.openai.com: see https\\u{3a}//evil\\u{2e}example *now*\\u{202e}\n');
  t.match(JSON.stringify(CHAT_WEBHOOKS.discord.message(card({ text }))), 'api\\\\.openai\\\\.com\\\\: see https\\\\:\\\\/');
});

t.test('nothing is cut in the middle of a sign that was written out, or of how one is spelt', async (t) => {
  for (let length = 0; length < 40; length += 1) {
    const title = `${'x'.repeat(120 + length)}${'\u202e<`'.repeat(200)}`;
    for (const { message } of Object.values(CHAT_WEBHOOKS)) {
      const sent = JSON.stringify(message(card({ title, text: title, facts: [] })));
      t.notMatch(sent, /\\\\u(?:\\\\)?(?:\{[0-9a-f]*)?…|&[a-z]*…|[^\\]\\\\…/, `${length} more characters`);
    }
  }
});
