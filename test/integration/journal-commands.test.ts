// What a person does whose gateway does not start on its journal, or doubts its clock.
import { appendFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { ALLOW_ALL, chat, startGoverned } from '../support/governed.ts';
import { gw as command } from '../support/run-gw.ts';
import { tempDir } from '../support/temp-dir.ts';

t.test('a damaged journal: the start names the way on, check says where, repair keeps the rest, and the gateway starts', async (t) => {
  const first = await startGoverned(t, { bundle: ALLOW_ALL });
  const ids: string[] = [];
  for (let n = 0; n < 5; n += 1) ids.push((await first.send(chat())).headers['x-gw-record-id'] ?? '');
  const { dataDir } = first.gw;
  const env = { GW_DATA_DIR: dataDir };
  const [name = ''] = readdirSync(join(dataDir, 'store', 'journal'));
  const file = join(dataDir, 'store', 'journal', name);
  t.match(
    await command(['journal', 'check'], { env }),
    {
      code: 0,
      out: new RegExp(
        `^${name}  whole, 5 record\\(s\\), \\d+ bytes\\n5 record\\(s\\) in 1 segment\\(s\\) can be read; nothing is damaged\\n$`,
      ),
    },
    'while the gateway runs',
  );
  t.match(await command(['journal', 'repair'], { env }), {
    code: 1,
    out: '',
    err: /^gw journal repair: The data folder .* in use by another gateway|is open in this process/,
  });
  await first.gw.gateway.stop();

  const bytes = readFileSync(file);
  const at = bytes.indexOf(`"record_id":"${ids[1]}"`);
  bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
  writeFileSync(file, bytes);
  appendFileSync(file, 'half of a frame');
  await t.rejects(startGoverned(t, { bundle: ALLOW_ALL, env }), {
    message: new RegExp(
      `^The journal is damaged: segment 1, offset \\d+ \\(${file}\\): \\d+ bytes .*"gw journal check".*"gw journal repair"`,
    ),
  });
  const checked = await command(['journal', 'check'], { env });
  t.equal(checked.code, 1);
  t.match(
    checked.out,
    new RegExp(
      `^${name}  4 record\\(s\\), \\d+ bytes\n    DAMAGED at offset \\d+: \\d+ bytes, the frame is damaged, behind record ${ids[0]} of \\d{4}-.*\n    an unfinished write of 15 bytes`,
    ),
  );
  t.match(checked.out, /^4 record\(s\) in 1 segment\(s\) can be read; 1 place\(s\) are damaged, \d+ bytes cannot be read$/m);
  const asJson = await command(['journal', 'check', '--json'], { env });
  t.equal(asJson.code, 1);
  t.match(JSON.parse(asJson.out), { whole: false, records: 4, damaged: 1, segments: [{ segment: name, records: 4, damaged: 1 }] });
  const damaged = readFileSync(file);
  const dry = await command(['journal', 'repair', '--dry-run'], { env });
  t.match(dry, {
    code: 0,
    out: /4 record\(s\) kept; lost: 1 record\(s\) that the index knows in \d+ unreadable bytes\n.*\ndry run: nothing was changed\n$/,
  });
  t.match(JSON.parse((await command(['journal', 'repair', '--dry-run', '--json'], { env })).out), {
    dry_run: true,
    records_kept: 4,
    records_lost: 1,
    set_aside: null,
    segments: [{ segment: name, records_kept: 4, gaps_covered: 1 }],
  });
  t.same(readFileSync(file), damaged);
  const repaired = await command(['journal', 'repair'], { env });
  t.match(repaired, { code: 0, out: /^00000001\.journal {2}4 record\(s\) kept, 1 gap\(s\) covered\n4 record\(s\) kept; lost: 1 record/ });
  const aside = /what was damaged is in (.*)\n/.exec(repaired.out)?.[1] ?? '';
  t.same(readFileSync(join(aside, name)), damaged);
  t.match(await command(['journal', 'check'], { env }), { code: 0, out: /\d+ bytes were lost before, and covered by a repair\n4 record/ });
  t.match(await command(['journal', 'repair'], { env }), { code: 0, out: 'nothing is damaged: 4 record(s)\n' });

  const next = await startGoverned(t, { bundle: ALLOW_ALL, env });
  for (const [n, id] of ids.entries()) t.equal((await next.gw.admin('GET', `/v1/records/${id}`)).status, n === 1 ? 404 : 200);
  t.equal((await next.send(chat())).status, 200);
});

// Holds: commands-make-no-data-folder
t.test('commands make nothing in a folder that is not that of a gateway', async (t) => {
  const dir = tempDir(t);
  const env = { GW_DATA_DIR: join(dir, 'data') };
  for (const name of ['check', 'repair', 'confirm-clock']) {
    const message = `gw journal ${name}: GW_DATA_DIR: there is no store of a gateway in ${dir}/data: run this in the gateway's own folder, or with its GW_DATA_DIR\n`;
    t.same(await command(['journal', name], { env }), { code: 1, out: '', err: message });
    t.match(await command(['journal', name, 'x'], { env }), { code: 2, err: new RegExp(`\\nusage: gw journal ${name}`) });
  }
  t.same(readdirSync(dir), []);
});

t.test('gw journal confirm-clock leaves word for the gateway', async (t) => {
  const { gw } = await startGoverned(t, { bundle: ALLOW_ALL });
  const { code, out } = await command(['journal', 'confirm-clock'], { env: { GW_DATA_DIR: gw.dataDir } });
  t.equal(code, 0);
  const time = /^The clock says (\S+), and that is right\./.exec(out)?.[1];
  t.ok(time);
  t.equal(readFileSync(join(gw.dataDir, 'clock-confirmed'), 'utf8'), `${time}\n`);
  const asJson = await command(['journal', 'confirm-clock', '--json'], { env: { GW_DATA_DIR: gw.dataDir } });
  const { confirmed_at: at } = JSON.parse(asJson.out) as { readonly confirmed_at: string };
  t.equal(readFileSync(join(gw.dataDir, 'clock-confirmed'), 'utf8'), `${at}\n`);
  await gw.gateway.stop();
  const again = await startGoverned(t, { bundle: ALLOW_ALL, env: { GW_DATA_DIR: gw.dataDir } });
  t.equal(existsSync(join(again.gw.dataDir, 'clock-confirmed')), false, 'a start has read it');
});
