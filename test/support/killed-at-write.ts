/**
 * To be imported ahead of the program (`--import`): kills it before or behind the write of the journal that is the
 * `at`-th in which this text stands.
 */
export function killedAtWrite(text: string, at: number, when: 'before' | 'after'): string {
  return `data:text/javascript,${encodeURIComponent(`
  import fs from 'node:fs';
  import { syncBuiltinESMExports } from 'node:module';
  const die = () => process.kill(process.pid, 'SIGKILL');
  let seen = 0;
  const isTheOne = (chunk) => {
    if (!ArrayBuffer.isView(chunk) || !Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength).includes(${JSON.stringify(text)})) return false;
    seen += 1;
    return seen === ${at};
  };
  const { write, writeSync } = fs;
  fs.writeSync = (fd, bytes, ...rest) => {
    const ours = isTheOne(bytes);
    if (ours && ${when === 'before'}) die();
    const written = writeSync(fd, bytes, ...rest);
    if (ours) die();
    return written;
  };
  // The way of the journal after a slow write.
  fs.write = (fd, bytes, ...rest) => {
    const ours = isTheOne(bytes);
    if (ours && ${when === 'before'}) die();
    const done = rest.pop();
    write(fd, bytes, ...rest, (...result) => {
      if (ours) die();
      done(...result);
    });
  };
  syncBuiltinESMExports();
`)}`;
}
