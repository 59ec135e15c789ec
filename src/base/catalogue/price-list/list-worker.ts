import { parentPort } from 'node:worker_threads';
import { judgeList, type ListToJudge } from './judge-list.ts';

/*
 * What runs in the thread of `judgeInThread`: answers one list by what became of it.
 */

parentPort?.once('message', (list: ListToJudge) => parentPort?.postMessage(judgeList(list)));
