// What Slack signs its requests with, against the example of its documentation; and what a button says of its approval.
import t from 'tap';
import { approvalOfButton, buttonValue, slackDoubt, slackSignature } from '../../../src/base/lib/slack-signature.ts';
import { fc } from '../../support/properties.ts';

/** Slack, "Verifying requests from Slack". */
const SECRET = '8f742231b10e8888abcd99yyyzzz85a5';
const SECONDS = '1531420618';
const BODY =
  'token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c';
const SIGNATURE = 'v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503';
const NOW = Number(SECONDS) * 1_000;
const WAITS = '019ad000-0000-7000-8000-000000000001';

t.test('the example of the documentation has its signature', async (t) => {
  t.equal(slackSignature(SECRET, SECONDS, BODY), SIGNATURE);
  t.equal(slackDoubt(SECRET, { seconds: SECONDS, signature: SIGNATURE, body: BODY }, NOW), undefined);
});

t.test('what is not signed so, or at another time, is doubted', async (t) => {
  const good = { seconds: SECONDS, signature: SIGNATURE, body: BODY };
  const doubt = (change: Partial<Parameters<typeof slackDoubt>[1]>, now = NOW, secret = SECRET) =>
    slackDoubt(secret, { ...good, ...change }, now);
  t.equal(doubt({}, NOW + 300_000), undefined, 'five minutes later');
  t.match(doubt({}, NOW + 301_000), /within 5 minutes/);
  t.match(doubt({}, NOW - 301_000), /within 5 minutes/);
  t.match(doubt({ seconds: undefined }), /has no X-Slack-Request-Timestamp/);
  t.match(doubt({ signature: undefined }), /has no/);
  for (const seconds of ['', '1531420618.0', '-1531420618', 'NaN', '1e9', ' 1531420618'])
    t.match(doubt({ seconds }), /within 5 minutes/, seconds);
  t.match(doubt({ seconds: String(Number(SECONDS) + 1) }), /is not signed/, 'the time is signed too');
  for (const signature of ['', 'v0=', SIGNATURE.slice(0, -1), SIGNATURE.toUpperCase(), SIGNATURE.replace('v0', 'v1'), `${SIGNATURE}0`])
    t.match(doubt({ signature }), /is not signed/, signature);
  t.match(doubt({}, NOW, `${SECRET}0`), /is not signed/);
  fc.assert(
    fc.property(fc.nat(BODY.length - 1), fc.integer({ min: 1, max: 255 }), (at, by) => {
      const body = `${BODY.slice(0, at)}${String.fromCharCode(BODY.charCodeAt(at) ^ by)}${BODY.slice(at + 1)}`;
      return doubt({ body }) !== undefined;
    }),
  );
});

t.test('a button names its approval and its verdict, and nobody makes one without the secret', async (t) => {
  const value = buttonValue(SECRET, WAITS, 'approved');
  t.equal(approvalOfButton(SECRET, value, 'approved'), WAITS);
  t.equal(approvalOfButton(SECRET, value, 'denied'), undefined, 'no yes stands behind a no');
  t.ok(value.length <= 256, 'it has room in a message');
  for (const other of ['', '.', WAITS, `${WAITS}.`, `${WAITS}.0`, value.slice(0, -1), `${value}0`, value.replace('1.', '2.')])
    t.equal(approvalOfButton(SECRET, other, 'approved'), undefined, other);
  t.equal(approvalOfButton('another', value, 'approved'), undefined);
});
