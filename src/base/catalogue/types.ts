import type { PartRate, PartTokens, Unit, UnitRate } from '../model/usage.ts';
import type { CallPlaces, PictureRule } from './call-places.ts';
import type { DeferredRule, DeltaRule, StreamErrorRule, UsageAskRule } from './dialect-rules.ts';
import type { Lookalikes } from './lookalikes.ts';
import type { NameRule } from './spelling.ts';

/**
 * Where a request keeps a governed value (model, stream switch). `path` of a body is dotted, `absent` what a switch
 * means that is not there; the regex of a path place captures the value in group 1.
 */
export type FieldPlace =
  | { readonly in: 'body'; readonly path: string; readonly absent?: boolean }
  | { readonly in: 'form'; readonly field: string }
  | { readonly in: 'path'; readonly pattern: RegExp; readonly verbs?: StreamVerbs }
  | { readonly in: 'query'; readonly name: string };

/**
 * The two last words of a path that say whether the answer is a stream, as `generateContent` and
 * `streamGenerateContent`.
 */
export interface StreamVerbs {
  readonly plain: string;
  readonly stream: string;
  /** Parameter of the query that goes with the stream verb, such as `alt=sse`. */
  readonly query: { readonly name: string; readonly value: string } | undefined;
  /** Member of the body that says the same and must agree. */
  readonly body: string | undefined;
}

/**
 * How token counts are taken from a usage object: all named paths added, the first that is present, or the largest.
 * Paths are dotted, relative to the usage root.
 */
export interface CountRule {
  readonly how: 'sum' | 'first' | 'most' | 'constant';
  readonly paths: readonly string[];
  readonly constant?: number;
}

/** What an answer says beside counts of tokens; paths as `answer-paths.ts` of the connectors reads them. */
export interface BesideRule {
  /**
   * Counts of what is billed beside tokens, by the first path that is there: a number, or as many as there are values.
   */
  readonly units: readonly UnitRule[];
  /** Terms of billing, by name; the first path that holds a text. */
  readonly terms: readonly { readonly name: string; readonly paths: readonly string[] }[];
  readonly passes: readonly PassRule[];
}

export interface UnitRule {
  readonly unit: Unit;
  readonly paths: readonly string[];
  /** Paths in the answer: the count is one of this unit where something stands at one of them; empty: always. */
  readonly given: readonly string[];
}

/** A list of what single models used inside of the call, or one such object (decision 6.3). */
export interface PassRule {
  readonly path: string;
  /** In an entry: the model, and the usage object ('' = the entry itself). */
  readonly model: string;
  readonly usage: string;
  /**
   * Kinds (`type`) of entries of which the counts of the call hold a part; `*`: every entry. Any other entry is in
   * addition to these counts.
   */
  readonly inside: readonly string[];
  /** Type of the tool in the request that says the model of an entry which names none. */
  readonly tool: string | undefined;
  /** How its counts are written; undefined: as those of the call. */
  readonly counts: UsageRule | undefined;
}

export interface UsageRule {
  /**
   * Dotted paths of usage objects in the answer ('' = the answer itself). All are looked at; of each count the largest
   * holds.
   */
  readonly roots: readonly string[];
  readonly tokensIn: CountRule;
  readonly tokensOut: CountRule;
  /** Counts of input and output together: what they hold beyond both is output. */
  readonly total: readonly string[];
  /** Counts of input that some answers leave out of `tokensIn`, which shows in their total. */
  readonly inBeside: readonly string[];
  /** They are no part of `tokensIn` where there is no total that would show it. */
  readonly inUntold: boolean;
  /** Counts of output that are no part of `tokensOut`. */
  readonly outBeside: readonly string[];
  /** Where one of these is there, reasoning is no part of `tokensOut`, nor of the total. */
  readonly reasoningBeside: readonly string[];
  /** Reasoning is no part of `tokensOut` where there is no total that would show it. */
  readonly reasoningUntold: boolean;
  /**
   * Where one of these is more than nothing, what the total holds beyond both counts is input: sound that the model
   * heard.
   */
  readonly restIn: readonly string[];
  /** Not every answer of this format has counts of tokens: what has none is not charged by them. */
  readonly optional: boolean;
  /** Counts of tokens that may have rates of their own. */
  readonly parts: readonly { readonly tokens: PartTokens; readonly count: CountRule }[];
  /** In the usage object. */
  readonly own: BesideRule;
  /** In the answer around it. */
  readonly answer: BesideRule;
  /** Lower-case names of response headers with the counts of an answer whose body tells none. */
  readonly headers:
    | {
        readonly tokensIn: readonly string[];
        readonly tokensOut: readonly string[];
        readonly cachedIn: string | undefined;
        readonly cacheWrite: string | undefined;
      }
    | undefined;
}

/**
 * How one wire format streams. `event` names are SSE event names or the `type` member of the data object, whichever the
 * dialect uses.
 */
export interface StreamRule {
  readonly framing: 'sse' | 'ndjson' | 'json_array' | 'aws_event_stream';
  /** The stream may also come as one JSON array, which its `application/json` does not tell from a plain answer. */
  readonly orJsonArray: boolean;
  /** Dotted path of the event proper inside the payload, in base64; undefined: the payload is the event. */
  readonly payloadPath: string | undefined;
  /** Data text that ends the stream, such as `[DONE]`. */
  readonly doneData?: string;
  /** Event names that end the stream. */
  readonly doneEvents: readonly string[];
  /** Dotted paths of members that stand, and are not false, only in the event that ends the stream. */
  readonly donePaths: readonly string[];
  /**
   * Dotted paths at which an answer says why it ended, `*` for each of several answers, and names of events that say
   * so. More may come behind it, such as usage: it does not end the stream, but a body that ends there has lacked
   * nothing, whether or not the format's own last event came.
   */
  readonly finishPaths: readonly string[];
  readonly finishEvents: readonly string[];
  /** Dotted roots of usage objects inside event data, all looked at, later values win per member (cumulative). */
  readonly usageRoots: readonly string[];
  /** Dotted paths where an error object may stand in event data. */
  readonly errorPaths: readonly string[];
  readonly errorEvents: readonly string[];
  /** Dotted paths of the model in event data. */
  readonly modelPaths: readonly string[];
}

/**
 * How calls travel on a WebSocket: JSON events both ways, each named by its member `type`; what an event says of a call
 * stands in its member `response`.
 */
export interface SocketRule {
  /** The wire format of one call; undefined: the one that the rule belongs to. */
  readonly call: Dialect | undefined;
  /** Client event that asks for a call, and the member that holds its params ('' = the event itself). */
  readonly create: string;
  readonly createIn: string;
  /**
   * Client events that change the settings of all calls to come, and the server events that tell them. Their member is
   * `session`.
   */
  readonly updates: readonly string[];
  readonly settingsEvents: readonly string[];
  /** Those of them that answer a change. */
  readonly updatedEvents: readonly string[];
  /**
   * Client events that neither ask for a call nor set anything. What is in none of these lists is an event that nobody
   * understands.
   */
  readonly passes: readonly string[];
  /** Client event that stops a call; without it a call that must not go on ends the socket. */
  readonly cancel: string | undefined;
  /** Server events that begin and end a call. */
  readonly startedEvents: readonly string[];
  readonly doneEvents: readonly string[];
  /** Server events that report the usage of another model beside the calls, and where the settings name that model. */
  readonly sideEvents: readonly string[];
  readonly sideModels: readonly string[];
}

/** One wire format of requests, answers and streams. */
export interface Dialect {
  readonly id: string;
  readonly model: readonly FieldPlace[];
  /** The switch that makes the answer a stream. */
  readonly stream: FieldPlace | undefined;
  /** How its parser takes the names of members; see {@link NameRule}. */
  readonly names: NameRule;
  /**
   * True where the provider takes the model of a call that names none from something that it keeps, such as an
   * assistant: nobody else knows it.
   */
  readonly modelStored: boolean;
  /** Set where the model makes pictures: the tokens of one, for a body that sets no maximum. */
  readonly picture: PictureRule | undefined;
  /** Where a body names further models, asks for what is billed beside tokens, or for terms of billing. */
  readonly places: CallPlaces;
  /**
   * Dotted body paths of the output maximum; of several that are given the largest counts, since the provider may
   * honour that (decision 6.5).
   */
  readonly maxTokens: readonly string[];
  /**
   * Each of `maxTokens` is read by some models only, so none of them is sure to hold: they can raise what is assumed,
   * and not lower it.
   */
  readonly maximaUncertain: boolean;
  /**
   * Dotted body paths of words of effort that its provider says the tokens of (`low`, `high`); they count where no
   * maximum is set.
   */
  readonly efforts: readonly string[];
  /** Dotted body paths of how many answers to each prompt are made; the largest counts. */
  readonly answers: readonly string[];
  /** Dotted body path of a prompt that may be a list of prompts, each with its own answers. */
  readonly prompts: string | undefined;
  /** Dotted body paths of everything that counts as prompt. */
  readonly promptPaths: readonly string[];
  /**
   * Dotted body paths of texts that may be charged as output, whatever the maximum says: a prediction of the answer.
   */
  readonly outputPaths: readonly string[];
  /** Of these the first is read once for each element of the second. */
  readonly perItem: { readonly path: string; readonly of: string } | undefined;
  readonly usage: UsageRule | undefined;
  /**
   * A stream reports usage only when the body's `stream_options.include_usage` asks for it, then in one more event with
   * empty `choices`.
   */
  readonly usageOnRequest: boolean;
  /** Undefined: every call of this format may ask for it. */
  readonly usageAskedIf: UsageAskRule | undefined;
  /** Paths of the model that the answer names; the last that is there holds. */
  readonly modelEcho: readonly string[] | undefined;
  /**
   * That is the name which its vendor gives the model, while the call's own says more of its price, such as the region.
   */
  readonly echoIsFamily: boolean;
  readonly streaming: StreamRule | undefined;
  /** Undefined: the output of its streams cannot be followed. */
  readonly deltas: DeltaRule | undefined;
  readonly streamError: StreamErrorRule | undefined;
  /** Set where a response may be made after the answer to its call, and its usage be told when somebody asks for it. */
  readonly deferred: DeferredRule | undefined;
  /** Set where calls of this format may come by WebSocket and can be metered. */
  readonly socket: SocketRule | undefined;
  /** Whose error body a refusal imitates, so that the provider's SDK shows it (decision 8.2). */
  readonly errorShape: ErrorShape;
  /** Header that this format needs on every host that speaks it, sent with `fallback` when the caller gave none. */
  readonly versionHeader?: { readonly name: string; readonly fallback: string };
}

export type ErrorShape = 'openai' | 'anthropic' | 'google' | 'cohere' | 'mistral' | 'aws' | 'replicate';

export interface AuthScheme {
  /** Lower-case header name. */
  readonly header: string;
  /** With `{key}` where the key stands, for example `Bearer {key}`. */
  readonly format: string;
  /** Injected instead of the first scheme for wire formats of this family. */
  readonly for?: ErrorShape;
}

/** What one method and path of a provider means. */
export interface Operation {
  /** `ai.infer`, `ai.embed`, `ai.moderate` or `http.request`. */
  readonly actionType: string;
  readonly detailType: string | undefined;
  readonly dialect: Dialect | undefined;
  readonly multipart: boolean;
  readonly websocket: boolean;
  /**
   * False for what no row describes and for rows that say so: nobody knows what its body means, so neither rule nor cap
   * may rely on that. A POST that no row names is `ai.infer` (fail towards inspection). The model is known all the same
   * where the path names it.
   */
  readonly known: boolean;
  readonly modelNames: ModelNames;
  /** No row names it, on a shared host: it is nothing of the provider's that policy knows as such. */
  readonly rest?: true | undefined;
  /** A plan that its caller has with the provider pays for it, not each call (decision 6.3). */
  readonly plan?: true | undefined;
  /**
   * How the answer of a POST that no row names is read for its usage, where it is no stream. The request, its policy
   * and its caps know nothing of it.
   */
  readonly answerDialect?: Dialect | undefined;
}

/**
 * Under which names a provider takes a model beside the one that policy sees. `caseless`: in any case, seen in lower
 * case. `collection`: with Google's collection before it (`models/x`), seen without. `tagged`: in any case, and with
 * the tag of the newest (`x:latest`), seen in lower case and without.
 */
export type ModelNames = 'exact' | 'caseless' | 'collection' | 'tagged';

/** One registry row (decision 8.7: each is its own connector id). */
export interface Provider {
  readonly id: string;
  readonly version: string;
  readonly neutralId: string | undefined;
  readonly aliases: readonly string[];
  readonly kind: string;
  /** May be named by the `/proxy/{provider}/` prefix. */
  readonly inProxyRegistry: boolean;
  /** Exact upstream hosts; the first is the one the prefix and default routing use. Empty for per-customer hosts. */
  readonly hosts: readonly string[];
  /**
   * For hosts per customer or region: `*.` and a domain covers everything below it, any other star is a label or a part
   * of one, `{region}` the name of a region of AWS.
   */
  readonly hostPatterns: readonly string[];
  /**
   * Ends of those hosts, with their first dot, that a customer of the provider runs, and so reads what comes to them
   * (decision 6.9).
   */
  readonly customerDomains: readonly string[];
  /** Its hosts carry much that is no call of a model: what is none passes uninspected (decision 3.8). */
  readonly shared: boolean;
  /** Paths of calls that a plan pays for, as operations write them. */
  readonly planPaths: readonly string[];
  /** Paths mean the same in any case: policy sees them in lower case. */
  readonly pathsIgnoreCase: boolean;
  /** Of a structured call that names none; may hold `{model}`. Undefined where the path needs more than that. */
  readonly defaultPath: string | undefined;
  /** The same for the action types that another path is for. */
  readonly defaultPaths: ReadonlyMap<string, string>;
  /** The first scheme is the one the gateway injects; every listed header is an auth header of this provider. */
  readonly auth: readonly AuthScheme[];
  readonly authQueryNames: readonly string[];
  /** Prefix of the subprotocol that carries a key, for WebSockets of browsers, which can set no header. */
  readonly authSubprotocol: string | undefined;
  readonly versionHeader: { readonly name: string; readonly fallback: string } | undefined;
  readonly idempotencyHeader: string | undefined;
  /** Of the wire format that its usual path has: the form of a refusal of any other call. */
  readonly errorShape: ErrorShape;
  /** People sign in to it, and what they get for that is an `Authorization` that its API takes. */
  readonly takesOauth: boolean;
  /** Where its API is described. */
  readonly docsUrl: string | undefined;
  readonly needsCredential: boolean;
  /** Streams on the structured API. */
  readonly canStream: boolean;
  /**
   * Lists of the price list that know its models, in this order (decision 6.16); empty: those of its models' makers do.
   */
  readonly priceLists: readonly string[];
  /** A model runs at one of several suppliers, `model:supplier`: what their lists' ids begin with. */
  readonly priceSuppliers: string | undefined;
  /**
   * Of a connector that an org has made itself (specification, "Custom connector"); undefined for a row of the
   * registry.
   */
  readonly custom?: CustomPlace;
}

/** Where a custom connector is, and what its own words for it are. */
export interface CustomPlace {
  readonly orgId: string;
  readonly port: number;
  readonly tls: boolean;
  /** Path of its base URL, without a slash at its end; empty for a dialect whose own paths begin at the root. */
  readonly basePath: string;
  /** Parameter of the query that carries its key; undefined: a header does, or there is none. */
  readonly authQuery: string | undefined;
  /** Of a structured call that names no model. */
  readonly defaultModel: string | undefined;
}

/** USD per million tokens, exact decimal text; those of parts are undefined where nobody states one. */
export interface Rates extends Readonly<Partial<Record<PartRate, string | undefined>>> {
  readonly in: string;
  readonly out: string;
}

/** Rates of all tokens of a call whose prompt has more than so many. */
export interface LongPromptRates extends Rates {
  readonly above: number;
}

/** What a term that an answer states makes of the rates: other ones, or all of them times a factor (decimal text). */
export interface PriceTerm {
  /** `name=value`, such as `service_tier=flex`. */
  readonly term: string;
  readonly factor?: string;
  readonly rates?: Rates;
  /** Beside `rates`, for longer prompts; the longest first. */
  readonly longPrompts?: readonly LongPromptRates[];
}

/**
 * What a model costs at one moment. JSON data; the same object for the same rates, so that what is reckoned from it can
 * be kept.
 */
export interface Price extends Rates {
  readonly source: 'catalogue' | 'override' | 'default';
  /** The model's maximum output tokens, when known. */
  readonly maxOutputTokens: number | undefined;
  /** The longest first. */
  readonly longPrompts?: readonly LongPromptRates[];
  readonly units?: Readonly<Partial<Record<Unit, UnitRate>>>;
  readonly terms?: readonly PriceTerm[];
  /** A plan pays: the call costs nothing, whatever it uses. */
  readonly plan?: true;
}

/** A row of the rates: those of a model, or of all that fit a pattern with one `*`; the provider `*` is any. */
export interface ListedPrice {
  readonly provider: string;
  readonly model: string;
  readonly price: Price;
}

export interface AiDomain {
  readonly domain: string;
  readonly vendor: string;
  readonly category: string;
}

/**
 * All data about the outside world as one immutable snapshot. Every look-up is O(1) or a short scan and allocates
 * nothing it need not.
 */
export interface Catalogue {
  /**
   * What one org sees: the registry and its own connectors, no other org's. The catalogue itself where nobody has any.
   */
  forOrg(orgId: string): Catalogue;
  /** Whether it holds connectors that orgs have made. */
  readonly hasCustom: boolean;
  readonly providers: readonly Provider[];
  /** Canonical id, neutral name or alias, case-insensitive (decision 1). */
  provider(idOrAlias: string): Provider | undefined;
  /** The registry row whose host this is; the argument is canonical (decision 3.17). */
  providerForHost(host: string): Provider | undefined;
  /**
   * Classifies by provider, method and canonical path (a query is ignored), never by body. `upgrade`: the request asks
   * for a WebSocket; without it a GET of a realtime path is the `http.request` that it is.
   */
  operation(provider: Provider, method: string, path: string, upgrade?: boolean): Operation;
  /**
   * Whether a request to a provider is a call, or may be taken for one: true of all but the rest of a shared host
   * (decision 3.8).
   * @param path as it was sent
   */
  isCall(provider: Provider, method: string, path: string): boolean;
  dialect(id: string): Dialect | undefined;
  /** The whole AI domain list; `match` says whether an entry covers one host, everything below it, or a pattern. */
  readonly domains: readonly (AiDomain & { readonly match: string })[];
  /** Longest match of the AI domain list. */
  domain(host: string): AiDomain | undefined;
  /** What hosts and calls look like at hosts that no row has. */
  readonly lookalikes: Lookalikes;
  /**
   * Never undefined: an unlisted model has the default 10.00 / 30.00.
   * @param at epoch milliseconds of the call; without it the newest rates that are listed, in force or not yet
   */
  price(providerId: string, model: string | undefined, at?: number): Price;
  /** All rates in force at a moment (epoch milliseconds). */
  prices(at: number): readonly ListedPrice[];
}
