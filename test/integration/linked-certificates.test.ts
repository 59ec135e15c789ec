// The certificate of the ports in files that are links, as Kubernetes and certbot lay them: a swap is noticed, again
// and again (decision 12.1).
import { mkdirSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { type CertificateAndKey, testCa } from '../support/certificates.ts';
import { eventually } from '../support/child.ts';
import { fakeClock } from '../support/fake-clock.ts';
import { startTestGateway } from '../support/gateway.ts';
import { askSecure, connectSecure } from '../support/port-tls.ts';
import { tempDir } from '../support/temp-dir.ts';

/** So little for each look that the half minute after which files are read in any case does not come. */
const STEP_MS = 8;

interface Layout {
  readonly name: string;
  /** Relative to its folder. */
  readonly files: { readonly cert: string; readonly key: string };
  /** Lays the pair of this turn, from 1, and takes away that of the turn before. */
  lay(folder: string, pair: CertificateAndKey, turn: number): void;
}

const LAYOUTS: readonly Layout[] = [
  {
    name: 'Kubernetes: files lead through ..data, which is renamed onto, and the folder before is removed',
    files: { cert: 'tls.crt', key: 'tls.key' },
    lay: (folder, { certPem, keyPem }, turn) => {
      mkdirSync(join(folder, `..turn-${turn}`));
      writeFileSync(join(folder, `..turn-${turn}`, 'tls.crt'), certPem);
      writeFileSync(join(folder, `..turn-${turn}`, 'tls.key'), keyPem);
      symlinkSync(`..turn-${turn}`, join(folder, '..data_tmp'));
      renameSync(join(folder, '..data_tmp'), join(folder, '..data'));
      if (turn === 1) for (const file of ['tls.crt', 'tls.key']) symlinkSync(join('..data', file), join(folder, file));
      rmSync(join(folder, `..turn-${turn - 1}`), { recursive: true, force: true });
    },
  },
  {
    name: 'certbot: links in live lead into archive, and are removed and made anew one after the other',
    files: { cert: 'live/fullchain.pem', key: 'live/privkey.pem' },
    lay: (folder, { certPem, keyPem }, turn) => {
      mkdirSync(join(folder, 'live'), { recursive: true });
      mkdirSync(join(folder, 'archive'), { recursive: true });
      for (const [name, text] of [
        ['privkey', keyPem],
        ['fullchain', certPem],
      ] as const) {
        writeFileSync(join(folder, 'archive', `${name}${turn}.pem`), text);
        if (turn > 1) unlinkSync(join(folder, 'live', `${name}.pem`));
        symlinkSync(`../archive/${name}${turn}.pem`, join(folder, 'live', `${name}.pem`));
      }
    },
  },
  {
    name: 'a link to each file is renamed onto',
    files: { cert: 'port.pem', key: 'port.key' },
    lay: (folder, { certPem, keyPem }, turn) => {
      mkdirSync(join(folder, `turn-${turn}`));
      for (const [name, text] of [
        ['port.key', keyPem],
        ['port.pem', certPem],
      ] as const) {
        writeFileSync(join(folder, `turn-${turn}`, name), text);
        symlinkSync(join(`turn-${turn}`, name), join(folder, `${name}.new`));
        renameSync(join(folder, `${name}.new`), join(folder, name));
      }
    },
  },
];

for (const { name, files, lay } of LAYOUTS) {
  t.test(name, async (t) => {
    const ca = testCa();
    const folder = tempDir(t);
    const clock = fakeClock();
    const pair = (): CertificateAndKey => ca.leaf({ hosts: ['127.0.0.1'] });
    lay(folder, pair(), 1);
    const env = { GW_TLS_CERT_FILE: join(folder, files.cert), GW_TLS_KEY_FILE: join(folder, files.key) };
    const gw = await startTestGateway(t, { clock, env });
    const shown = async () => {
      const socket = await connectSecure(t, gw.port, ca.certPem);
      const print = socket.getPeerX509Certificate()?.fingerprint256;
      socket.destroy();
      return print;
    };
    for (const turn of [2, 3]) {
      const before = await shown();
      lay(folder, pair(), turn);
      await eventually(`turn ${turn}`, async () => {
        clock.advance(STEP_MS);
        return (await shown()) !== before || undefined;
      });
    }
    t.match((await askSecure(gw.port, ca.certPem, '/healthz')).body, { warnings: [] });
    const counts = String((await askSecure(gw.port, ca.certPem, '/metrics')).body['text']);
    t.match(counts, /^gw_own_certificate_reloads_total\{result="loaded"\} 2$/m);
  });
}
