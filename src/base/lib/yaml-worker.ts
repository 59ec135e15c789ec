import { parentPort } from 'node:worker_threads';
import { parseYaml } from './yaml.ts';
import { packYaml } from './yaml-packed.ts';
import type { ReadInThread, YamlText } from './yaml-thread.ts';

/*
 * What runs in the thread of `readYaml`: answers each text by its tree as soon as it is read, and ends behind the last
 * one.
 */

parentPort?.once('message', (texts: readonly YamlText[]) => {
  for (const { text, file } of texts) {
    const { root, errors } = parseYaml(text, file);
    // Of what is not sound nobody uses the tree.
    const answer: ReadInThread = errors.length > 0 ? { errors } : { errors, packed: packYaml(root) };
    parentPort?.postMessage(answer);
  }
});
