import { parentPort } from 'node:worker_threads';
import { parseYaml } from './yaml.ts';
import type { YamlText } from './yaml-thread.ts';

/*
 * What runs in the thread of `readYaml`: answers each text by its tree as soon as it is read, and ends behind the last one.
 */

parentPort?.once('message', (texts: readonly YamlText[]) => {
  for (const { text, file } of texts) parentPort?.postMessage(parseYaml(text, file));
});
