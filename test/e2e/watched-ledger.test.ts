// Somebody watches the ledger of a control plane that runs, is started anew, and whose data is set back.
import { randomBytes } from 'node:crypto';
import { cpSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { eventually, run } from '../support/child.ts';
import { PROTOCOL, type RunningControlPlane, runControlPlane, TIMEOUT_MS } from '../support/control-plane.ts';
import { MAIN } from '../support/gateway-process.ts';
import { askPublicly, LedgerJudge } from '../support/ledger-judge.ts';
import { tempDir } from '../support/temp-dir.ts';

t.test('a watcher follows a history over a restart, and says so when it goes backward or is another one', async (t) => {
  const folder = tempDir(t);
  const dataDir = join(folder, 'control-plane');
  const older = join(folder, 'older');
  const state = join(folder, 'acme.state');
  const urlOf = ({ plane }: RunningControlPlane) => `http://127.0.0.1:${plane.httpPort}`;
  const watch = async (running: RunningControlPlane) => {
    const asked = ['verify', '--watch', urlOf(running), '--state', state, '--org', 'acme', '--json'];
    const { code, stdout, stderr } = await run(t, process.execPath, [MAIN, ...asked]);
    return { code, said: stdout === '' ? stderr : (JSON.parse(stdout) as Readonly<Record<string, unknown>>) };
  };
  const first = await runControlPlane(t, {}, { dataDir });
  const { identity } = await first.enrol('acme', 'node-1');
  /** A batch of its own. */
  const batch = async (running: RunningControlPlane, sequence: number): Promise<void> => {
    await running.client(identity).call(PROTOCOL.controlPlane, 'SubmitHashes', { hashes: [randomBytes(32)] }, TIMEOUT_MS);
    await eventually(`root ${sequence}`, async () => {
      const { roots } = await LedgerJudge.read(askPublicly(urlOf(running)), 'acme');
      return roots.length === sequence ? true : undefined;
    });
  };
  t.match(await watch(first), { code: 0, said: { verified: true, from: 0, sequence: 0 } }, 'there is no root yet');
  await batch(first, 1);
  t.match(await watch(first), { code: 0, said: { from: 0, sequence: 1 } });
  await first.plane.stop();
  cpSync(dataDir, older, { recursive: true });

  const second = await runControlPlane(t, {}, { dataDir });
  t.match(await watch(second), { code: 0, said: { from: 1, sequence: 1 } }, 'a start changes nothing');
  await batch(second, 2);
  await batch(second, 3);
  t.match(await watch(second), { code: 0, said: { from: 1, sequence: 3 } });
  await second.plane.stop();
  const seen = readFileSync(state, 'utf8');

  rmSync(dataDir, { recursive: true });
  cpSync(older, dataDir, { recursive: true });
  const third = await runControlPlane(t, {}, { dataDir });
  t.match(await watch(third), {
    code: 1,
    said: { verified: false, sequence: 3, problems: [/ends before root 3, which was there: its history goes backward/] },
  });
  await batch(third, 2);
  await batch(third, 3);
  t.match(await watch(third), { code: 1, said: { problems: [/root 3 was rewritten/] } }, 'also when it is as long again');
  await batch(third, 4);
  t.match(await watch(third), { code: 1, said: { problems: [/root 3 was rewritten/] } }, 'and longer');
  t.equal(readFileSync(state, 'utf8'), seen, 'what was seen is still remembered');

  const stranger = await runControlPlane(t);
  await stranger.plane.state.orgs.put('acme', {}, stranger.commit);
  t.match(await watch(stranger), { code: 1, said: { verified: false } }, 'another control plane in its place is another history');
});
