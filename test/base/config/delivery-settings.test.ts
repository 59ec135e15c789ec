// Settings that say where alerts and events go.
import t from 'tap';
import { loadConfig } from '../../../src/base/config/config.ts';
import { mailAddress, smtpUrl, syslogAddress, webhookUrl } from '../../../src/base/config/delivery-types.ts';
import { ConfigError } from '../../../src/base/config/settings-reader.ts';

t.test('a mail server is read with its way of TLS, its port and its login', async (t) => {
  t.same(smtpUrl.parse('smtp://mail.example.com'), { authority: { host: 'mail.example.com', port: 587 }, tls: 'starttls' });
  t.same(smtpUrl.parse('smtps://u:p%40ss@mail.example.com/'), {
    authority: { host: 'mail.example.com', port: 465 },
    tls: 'implicit',
    user: 'u',
    password: 'p@ss',
  });
  t.match(smtpUrl.parse('smtp://relay.example.com:25?tls=none'), { tls: 'none', authority: { port: 25 } });
  for (const bad of [
    'mail.example.com:25',
    'http://mail.example.com',
    'smtps://mail.example.com?tls=none',
    'smtp://u%0a:p@mail.example.com',
    'smtp://mail.example.com?tls=maybe',
  ]) {
    t.throws(() => smtpUrl.parse(bad), bad);
  }
});

t.test('addresses', async (t) => {
  t.equal(mailAddress.parse('gateway@example.com'), 'gateway@example.com');
  for (const bad of ['gateway', 'a b@example.com', 'Gateway <g@example.com>', 'g@example.com\r\nBcc: x@example.com'])
    t.throws(() => mailAddress.parse(bad), bad);
  t.match(webhookUrl.parse('http://10.0.0.1:8080/in?x=1'), { tls: false, path: '/in?x=1', operatorOwn: true });
  for (const bad of ['siem', 'ftp://siem/', 'https://u:p@siem/']) t.throws(() => webhookUrl.parse(bad), bad);
  t.match(syslogAddress.parse('udp://[::1]:514'), { transport: 'udp' });
  t.throws(() => syslogAddress.parse('siem:514'));
});

t.test('what means nothing alone stops the start, and no secret is said', async (t) => {
  const problems = (env: Record<string, string>): unknown => {
    try {
      loadConfig(env, false);
      return 'it starts';
    } catch (error) {
      return error instanceof ConfigError ? error.message : error;
    }
  };
  t.match(problems({ GW_SMTP_URL: 'smtp://u:hush@mail.example.com' }), 'GW_SMTP_FROM is not set, and GW_SMTP_URL needs it');
  t.match(problems({ GW_EXPORT_WEBHOOK_TOKEN: 'hush-hush-hush-hush' }), 'GW_EXPORT_WEBHOOK_URL is not set');
  t.notMatch(problems({ GW_SMTP_URL: 'smtp://hush hush', GW_EXPORT_WEBHOOK_URL: 'https://hush:hush@siem/' }), 'hush');
});
