import { DENIED_MODEL, type DemoPlace } from './demo-place.ts';
import { ask, askThrough, type DemoAnswer } from './demo-requests.ts';
import { STAND_IN_TEXT } from './stand-in-answers.ts';

/** One call of the demo. */
export interface DemoCall {
  readonly title: string;
  /** As its record is to say. */
  readonly decision: 'allow' | 'deny';
  readonly send: (place: DemoPlace) => Promise<DemoAnswer>;
  /** Whether what came back is what was to come. */
  readonly isRight: (answer: DemoAnswer) => boolean;
}

const QUESTION = [{ role: 'user', content: 'Say hello.' }];
const OPENAI_KEY = { Authorization: 'Bearer sk-demo-not-a-real-key' };
const ANTHROPIC_KEY = { 'x-api-key': 'sk-ant-demo-not-a-real-key', 'anthropic-version': '2023-06-01' };

/** Through each door once, one of them streamed, and one that policy refuses. */
export const DEMO_CALLS: readonly DemoCall[] = [
  {
    title: 'HTTPS_PROXY: the program calls https://api.openai.com, the gateway opens it',
    decision: 'allow',
    send: (place) =>
      askThrough(place, {
        url: 'https://api.openai.com/v1/chat/completions',
        headers: OPENAI_KEY,
        body: { model: 'gpt-4o-mini', messages: QUESTION },
      }),
    isRight: answered,
  },
  {
    title: 'HTTPS_PROXY, streamed: events leave as they come',
    decision: 'allow',
    send: (place) =>
      askThrough(place, {
        url: 'https://api.anthropic.com/v1/messages',
        headers: ANTHROPIC_KEY,
        body: { model: 'claude-haiku-4-5', max_tokens: 100, stream: true, messages: QUESTION },
      }),
    isRight: ({ status, text }) => status === 200 && text.includes('message_stop'),
  },
  {
    title: 'base URL of an SDK: no certificate needed',
    decision: 'allow',
    send: (place) =>
      ask({
        url: `${place.url}/proxy/openai/v1/chat/completions`,
        headers: OPENAI_KEY,
        body: { model: 'gpt-4.1-mini', messages: QUESTION },
      }),
    isRight: answered,
  },
  {
    title: 'structured API: the call as data, the decision in the answer',
    decision: 'allow',
    send: (place) =>
      ask({
        url: `${place.url}/v1/actions:execute`,
        body: {
          schema: 'gw.action_request.v2',
          org_id: 'default',
          workload_id: 'default',
          credential_hint: 'sk-demo-not-a-real-key',
          action: {
            type: 'ai.infer',
            method: 'POST',
            target_host: 'api.openai.com',
            target_path: '/v1/chat/completions',
            params: { model: 'gpt-4o-mini', messages: QUESTION },
          },
        },
      }),
    isRight: answered,
  },
  {
    title: `base URL again, but ${DENIED_MODEL}: refused by policy before it leaves`,
    decision: 'deny',
    send: (place) =>
      ask({
        url: `${place.url}/proxy/openai/v1/chat/completions`,
        headers: OPENAI_KEY,
        body: { model: DENIED_MODEL, messages: QUESTION },
      }),
    isRight: ({ status, text }) => status === 403 && !text.includes(STAND_IN_TEXT),
  },
];

function answered({ status, text }: DemoAnswer): boolean {
  return status === 200 && text.includes(STAND_IN_TEXT);
}
