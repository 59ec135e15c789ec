import t from 'tap';
import { loadCatalogue } from '../../../src/base/catalogue/catalogue.ts';
import type { Price } from '../../../src/base/catalogue/types.ts';
import { meter } from '../../../src/decide/pricing/cost.ts';
import { readUsage } from '../../../src/outbound/connectors/usage-reader.ts';
import { fc } from '../../support/properties.ts';

/*
 * Under one set of names vendors count differently. For each way in which an answer is known to be meant there is a
 * reading here, written for this test alone; where an answer fits a reading, what we charge is no less (decision 6.3).
 */

interface Tokens {
  readonly in: number;
  readonly out: number;
}

const catalogue = loadCatalogue();
const PRICE: Price = { in: '1', out: '5', source: 'catalogue', maxOutputTokens: undefined };
const RUNS = 3000;

const count = fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 50 }), fc.integer({ min: 1, max: 400_000 }));
const maybe = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(value, { nil: undefined });

function costOf(tokens: Tokens): bigint {
  return meter({ tokens_in: tokens.in, tokens_out: tokens.out }, PRICE).costPico;
}

function holds<A>(dialect: string, answers: fc.Arbitrary<A>, readings: Readonly<Record<string, (answer: A) => Tokens | undefined>>): void {
  const format = catalogue.dialect(dialect);
  const met = new Set<string>();
  fc.assert(
    fc.property(answers, (answer) => {
      const text = JSON.stringify(answer);
      const { usage } = readUsage(format, JSON.parse(text));
      const charged = meter(usage, PRICE).costPico;
      for (const [name, reading] of Object.entries(readings)) {
        const meant = reading(answer);
        if (meant === undefined) continue;
        met.add(name);
        if (costOf(meant) > charged)
          throw new Error(`${dialect}: "${name}" is dearer (${JSON.stringify(meant)}) for ${text}: ${JSON.stringify(usage)}`);
      }
    }),
    { numRuns: RUNS },
  );
  t.strictSame([...met].sort(), Object.keys(readings).sort(), `${dialect}: every reading was met`);
}

interface ChatUsage {
  readonly prompt_tokens?: number | undefined;
  readonly completion_tokens?: number | undefined;
  readonly total_tokens?: number | undefined;
  readonly reasoning_tokens?: number | undefined;
  readonly citation_tokens?: number | undefined;
  readonly completion_tokens_details?: { readonly reasoning_tokens: number } | undefined;
  readonly cache_read_input_tokens?: number | undefined;
}

const chatUsage: fc.Arbitrary<ChatUsage> = fc
  .record({
    prompt: count,
    completion: count,
    reasoning: maybe(count),
    citation: maybe(count),
    cached: maybe(count),
    own: fc.boolean(),
    total: fc.nat(6),
  })
  .map(({ prompt, completion, reasoning, citation, cached, own, total }) => ({
    prompt_tokens: prompt,
    completion_tokens: completion,
    ...(total === 0
      ? {}
      : {
          total_tokens:
            prompt + completion + (total > 2 ? (reasoning ?? 0) : 0) + (total > 3 ? (cached ?? 0) : 0) + (total > 4 ? (citation ?? 0) : 0),
        }),
    ...(reasoning === undefined
      ? {}
      : own
        ? { reasoning_tokens: reasoning }
        : { completion_tokens_details: { reasoning_tokens: reasoning } }),
    ...(citation === undefined ? {} : { citation_tokens: citation }),
    ...(cached === undefined ? {} : { cache_read_input_tokens: cached }),
  }));

const plain = (usage: ChatUsage | undefined): Tokens | undefined =>
  usage && { in: usage.prompt_tokens ?? 0, out: usage.completion_tokens ?? 0 };
const reasoningOf = (usage: ChatUsage): number => usage.reasoning_tokens ?? usage.completion_tokens_details?.reasoning_tokens ?? 0;

t.test('OpenAI chat and everybody who answers in its format', async () => {
  const choice = fc.record({ usage: maybe(chatUsage) });
  const answers = fc.record({
    usage: maybe(chatUsage),
    choices: fc.array(choice, { maxLength: 2 }),
    x_groq: maybe(fc.record({ usage: chatUsage })),
  });
  const anywhere = (answer: { usage?: ChatUsage | undefined; x_groq?: { usage: ChatUsage } | undefined }) =>
    answer.usage ?? answer.x_groq?.usage;
  holds('openai_chat', answers, {
    'its own counts': ({ usage }) => plain(usage),
    'those of the last choice (Moonshot)': ({ choices }) => plain(choices.at(-1)?.usage),
    'those of x_groq': ({ x_groq }) => plain(x_groq?.usage),
    'what the total holds beyond the prompt is output (Gemini)': (answer) => {
      const usage = anywhere(answer);
      if (usage?.total_tokens === undefined || usage.prompt_tokens === undefined || (usage.cache_read_input_tokens ?? 0) > 0)
        return undefined;
      return { in: usage.prompt_tokens, out: usage.total_tokens - usage.prompt_tokens };
    },
    'reasoning that is larger than the output is none of it (xAI)': (answer) => {
      const usage = anywhere(answer);
      if (usage === undefined || reasoningOf(usage) <= (usage.completion_tokens ?? 0) + (usage.citation_tokens ?? 0)) return undefined;
      return { in: usage.prompt_tokens ?? 0, out: (usage.completion_tokens ?? 0) + reasoningOf(usage) };
    },
    'citations and reasoning beside the output (Perplexity)': (answer) => {
      const usage = anywhere(answer);
      if (usage?.citation_tokens === undefined) return undefined;
      return { in: usage.prompt_tokens ?? 0, out: (usage.completion_tokens ?? 0) + usage.citation_tokens + reasoningOf(usage) };
    },
    'cached input beside the prompt, where the total has it': (answer) => {
      const usage = anywhere(answer);
      const {
        prompt_tokens: prompt = 0,
        completion_tokens: completion = 0,
        cache_read_input_tokens: cached = 0,
        total_tokens: total,
      } = usage ?? {};
      if (total === undefined || cached === 0 || total < prompt + completion + cached) return undefined;
      return { in: prompt + cached, out: completion };
    },
  });
});

t.test('xAI, whose answers had no total once', async () => {
  holds('xai_chat', fc.record({ usage: chatUsage }), {
    'reasoning beside the output': ({ usage }) =>
      usage.total_tokens === undefined
        ? { in: usage.prompt_tokens ?? 0, out: (usage.completion_tokens ?? 0) + reasoningOf(usage) }
        : undefined,
    'its own counts': ({ usage }) => plain(usage),
  });
});

t.test('OpenAI responses', async () => {
  const tokens = fc.record({ input_tokens: count, output_tokens: count, total: fc.boolean(), more: maybe(count) });
  const usage = tokens.map(({ input_tokens, output_tokens, total, more }) => ({
    input_tokens,
    output_tokens,
    ...(total ? { total_tokens: input_tokens + output_tokens + (more ?? 0) } : {}),
  }));
  const picture = fc.record({ input_tokens: count, output_tokens: count });
  const answers = fc.record({ usage, tool_usage: maybe(fc.record({ image_gen: picture })) });
  const own = (answer: { usage: { input_tokens: number; output_tokens: number } }): Tokens => ({
    in: answer.usage.input_tokens,
    out: answer.usage.output_tokens,
  });
  holds('openai_responses', answers, {
    'its own counts': own,
    'the total': ({ usage: { total_tokens: total, input_tokens: input } }) =>
      total === undefined ? undefined : { in: input, out: total - input },
    'pictures beside it': (answer) => {
      const made = answer.tool_usage?.image_gen;
      return made && { in: own(answer).in + made.input_tokens, out: own(answer).out + made.output_tokens };
    },
  });
});

t.test('Anthropic messages', async () => {
  const tokens = fc.record({
    input_tokens: count,
    output_tokens: count,
    cache_read_input_tokens: maybe(count),
    cache_creation_input_tokens: maybe(count),
  });
  const entry = fc.tuple(fc.constantFrom('message', 'compaction', 'advisor_message', 'fallback_message', 'something_new'), tokens);
  const entries = fc.array(
    entry.map(([type, counts]) => ({ type, ...counts })),
    { maxLength: 4 },
  );
  const answers = fc.tuple(tokens, maybe(entries)).map(([own, iterations]) => ({ usage: { ...own, iterations: iterations ?? null } }));
  const read = (one: {
    input_tokens: number;
    output_tokens: number;
    cache_read_input_tokens?: number | undefined;
    cache_creation_input_tokens?: number | undefined;
  }): Tokens => ({
    in: one.input_tokens + (one.cache_read_input_tokens ?? 0) + (one.cache_creation_input_tokens ?? 0),
    out: one.output_tokens,
  });
  const sum = (list: readonly Tokens[]): Tokens => ({
    in: list.reduce((all, one) => all + one.in, 0),
    out: list.reduce((all, one) => all + one.out, 0),
  });
  const INSIDE = ['message', 'fallback_message'];
  holds('anthropic_messages', answers, {
    'the counts of the message': ({ usage }) => read(usage),
    'all iterations': ({ usage }) => (usage.iterations === null ? undefined : sum(usage.iterations.map(read))),
    'passes of other kinds beside the message': ({ usage }) =>
      usage.iterations === null
        ? undefined
        : sum([read(usage), ...usage.iterations.filter(({ type }) => !INSIDE.includes(type)).map(read)]),
  });
});

t.test('Gemini', async () => {
  const answers = fc
    .record({
      promptTokenCount: count,
      candidatesTokenCount: maybe(count),
      thoughtsTokenCount: maybe(count),
      toolUsePromptTokenCount: maybe(count),
      total: fc.boolean(),
      more: count,
    })
    .map(({ total, more, ...counts }) => ({
      usageMetadata: {
        ...counts,
        ...(total
          ? {
              totalTokenCount:
                counts.promptTokenCount +
                (counts.candidatesTokenCount ?? 0) +
                (counts.thoughtsTokenCount ?? 0) +
                (counts.toolUsePromptTokenCount ?? 0) +
                more,
            }
          : {}),
      },
    }));
  holds('gemini_generate', answers, {
    'thoughts and tools beside the main counts': ({ usageMetadata: usage }) => ({
      in: usage.promptTokenCount + (usage.toolUsePromptTokenCount ?? 0),
      out: (usage.candidatesTokenCount ?? 0) + (usage.thoughtsTokenCount ?? 0),
    }),
    'what the total holds beyond the input': ({ usageMetadata: usage }) => {
      const input = usage.promptTokenCount + (usage.toolUsePromptTokenCount ?? 0);
      return usage.totalTokenCount === undefined ? undefined : { in: input, out: usage.totalTokenCount - input };
    },
  });
});

t.test('Cohere', async () => {
  const embedded = fc.record({ meta: fc.record({ billed_units: fc.record({ input_tokens: count, image_tokens: maybe(count) }) }) });
  holds('cohere_embed', embedded, {
    'pictures beside texts': ({ meta: { billed_units: units } }) => ({ in: units.input_tokens + (units.image_tokens ?? 0), out: 0 }),
  });
  const units = fc.record({ input_tokens: count, output_tokens: count });
  const chats = units.chain((billed) =>
    units.map((around) => ({
      usage: {
        billed_units: billed,
        tokens: { input_tokens: billed.input_tokens + around.input_tokens, output_tokens: billed.output_tokens },
      },
    })),
  );
  holds('cohere_chat', chats, {
    'what is billed': ({ usage }) => ({ in: usage.billed_units.input_tokens, out: usage.billed_units.output_tokens }),
    'all that the model was given': ({ usage }) => ({ in: usage.tokens.input_tokens, out: usage.tokens.output_tokens }),
  });
});

t.test('Mistral conversations, embeddings, Bedrock Converse', async () => {
  holds(
    'mistral_conversations',
    fc.record({ usage: fc.record({ prompt_tokens: count, completion_tokens: count, connector_tokens: maybe(count) }) }),
    {
      'what connectors read': ({ usage }) => ({ in: usage.prompt_tokens + (usage.connector_tokens ?? 0), out: usage.completion_tokens }),
    },
  );
  holds('openai_embeddings', fc.record({ usage: fc.record({ prompt_tokens: count, total_tokens: maybe(count) }) }), {
    'the prompt': ({ usage }) => ({ in: usage.prompt_tokens, out: 0 }),
    'all of it (Jina, Voyage)': ({ usage }) => (usage.total_tokens === undefined ? undefined : { in: usage.total_tokens, out: 0 }),
  });
  const converse = fc.record({
    inputTokens: count,
    outputTokens: count,
    cacheReadInputTokens: maybe(count),
    cacheWriteInputTokens: maybe(count),
  });
  holds('bedrock_converse', fc.record({ usage: converse }), {
    'caches beside the input': ({ usage }) => ({
      in: usage.inputTokens + (usage.cacheReadInputTokens ?? 0) + (usage.cacheWriteInputTokens ?? 0),
      out: usage.outputTokens,
    }),
  });
});
