/*
 * A user's program: `node sdk.mjs NAME CALL...` makes calls with one official SDK as it comes, keys and addresses from
 * the environment. It knows nothing of a gateway. CALL is `plain` or `stream`, with another model than the usual one as
 * `plain:MODEL`, or one of the SDK's own below.
 */
import { report } from './seen-answers.mjs';

const PROMPT = 'hello';
const messages = [{ role: 'user', content: PROMPT }];
const { AZURE_TARGET_HOST, COHERE_URL, MISTRAL_URL } = process.env;

async function collect(stream, textOf) {
  let text = '';
  for await (const event of stream) text += textOf(event) ?? '';
  return text;
}

const SDKS = {
  async openai() {
    const { default: OpenAI } = await import('openai');
    const client = new OpenAI();
    return {
      plain: async (model = 'gpt-4o-mini') => (await client.chat.completions.create({ model, messages })).choices[0].message.content,
      stream: async (model = 'gpt-4o-mini') =>
        collect(
          await client.chat.completions.create({ model, messages, stream: true, stream_options: { include_usage: true } }),
          (chunk) => chunk.choices[0]?.delta.content,
        ),
      // Reads the beginning only: the SDK gives the request up, the program goes on.
      'stream-left': async () => {
        for await (const chunk of await client.chat.completions.create({ model: 'gpt-4o-mini', messages, stream: true })) {
          if (chunk.choices[0]?.delta.content) return chunk.choices[0].delta.content;
        }
      },
      responses: async () => (await client.responses.create({ model: 'gpt-4o-mini', input: PROMPT })).output_text,
      'responses-stream': async (model = 'gpt-4o-mini') =>
        collect(await client.responses.create({ model, input: PROMPT, stream: true }), (event) =>
          event.type === 'response.output_text.delta' ? event.delta : '',
        ),
    };
  },
  async azure() {
    const { AzureOpenAI } = await import('openai');
    const headers = AZURE_TARGET_HOST ? { defaultHeaders: { 'X-GW-Target-Host': AZURE_TARGET_HOST } } : {};
    const client = new AzureOpenAI(headers);
    return {
      plain: async (model = 'gpt-4o-mini') => (await client.chat.completions.create({ model, messages })).choices[0].message.content,
      stream: async (model = 'gpt-4o-mini') =>
        collect(
          await client.chat.completions.create({ model, messages, stream: true, stream_options: { include_usage: true } }),
          (chunk) => chunk.choices[0]?.delta.content,
        ),
    };
  },
  async anthropic() {
    const { default: Anthropic } = await import('@anthropic-ai/sdk');
    const client = new Anthropic();
    const body = (model = 'claude-3-5-haiku-20241022') => ({ model, max_tokens: 100, messages });
    return {
      plain: async (model) => (await client.messages.create(body(model))).content[0].text,
      stream: async (model) =>
        collect(await client.messages.create({ ...body(model), stream: true }), (event) =>
          event.type === 'content_block_delta' ? event.delta.text : '',
        ),
      'count-tokens': async () => {
        const { max_tokens: _, ...counted } = body();
        return String((await client.messages.countTokens(counted)).input_tokens);
      },
    };
  },
  async gemini() {
    const { GoogleGenAI } = await import('@google/genai');
    const ai = new GoogleGenAI({});
    const older = new GoogleGenAI({ apiVersion: 'v1beta' });
    const body = (model = 'gemini-2.5-flash') => ({ model, contents: PROMPT });
    return {
      plain: async (model) => (await ai.models.generateContent(body(model))).text,
      stream: async (model) => collect(await ai.models.generateContentStream(body(model)), (chunk) => chunk.text),
      'plain-v1beta': async () => (await older.models.generateContent(body())).text,
      'stream-v1beta': async () => collect(await older.models.generateContentStream(body()), (chunk) => chunk.text),
    };
  },
  async mistral() {
    const { Mistral } = await import('@mistralai/mistralai');
    const client = new Mistral({ apiKey: process.env.MISTRAL_API_KEY, ...(MISTRAL_URL ? { serverURL: MISTRAL_URL } : {}) });
    return {
      plain: async (model = 'mistral-small-latest') => (await client.chat.complete({ model, messages })).choices[0].message.content,
      stream: async (model = 'mistral-small-latest') =>
        collect(await client.chat.stream({ model, messages }), (event) => event.data.choices[0]?.delta.content),
    };
  },
  async cohere() {
    const { CohereClientV2 } = await import('cohere-ai');
    const client = new CohereClientV2({ token: process.env.CO_API_KEY, ...(COHERE_URL ? { baseUrl: COHERE_URL } : {}) });
    return {
      plain: async (model = 'command-r7b-12-2024') => (await client.chat({ model, messages })).message.content[0].text,
      stream: async (model = 'command-r7b-12-2024') =>
        collect(await client.chatStream({ model, messages }), (event) =>
          event.type === 'content-delta' ? event.delta.message.content.text : '',
        ),
    };
  },
};

const [name, ...calls] = process.argv.slice(2);
const sdk = await SDKS[name]();
for (const call of calls) {
  const [kind, model] = call.split(':');
  await report(call, () => sdk[kind](model));
}
