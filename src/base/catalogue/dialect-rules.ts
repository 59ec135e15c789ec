// What a wire format says beside its requests, its usage and its streams.

/** Where the events of a stream hold what the model says, as it says it. */
export interface DeltaRule {
  /** Dotted paths in event data; `*` stands for each element of a list. Texts, or values made of texts. */
  readonly paths: readonly string[];
  /** Names of events whose data is no text, though it stands at such a path. */
  readonly except: readonly string[];
}

/**
 * How a call of this format asks for a response that is made after its answer, and how the provider tells of such a
 * response.
 */
export interface DeferredRule {
  /** Member of the body that asks for it. */
  readonly switch: string;
  /** Dotted paths in a response object of its id and its status. */
  readonly id: string;
  readonly status: string;
  /** Values of the status while the response is being made; with any other it has ended. */
  readonly open: readonly string[];
  /** Member of a stream's events that holds the response object. */
  readonly inEvent: string;
}

/** How a stream of this format tells an error in place of its end. */
export interface StreamErrorRule {
  /** Name of the event; undefined: it has none. */
  readonly event: string | undefined;
  /** Members beside those of the format's error body; a text `{message}` or `{code}` stands for the error's own. */
  readonly data: Readonly<Record<string, unknown>>;
  /**
   * Server-sent events: the error is said once more as a bare JSON text, which is all that the provider's own SDK takes
   * for one.
   */
  readonly alsoBare: boolean;
}

/**
 * Which calls may ask for the usage of their stream: others would be refused for an option that is unknown to their
 * provider.
 */
export interface UsageAskRule {
  /**
   * Query parameter that names the version of the interface, and the first version that knows the option, compared as
   * text; undefined: all versions know it.
   */
  readonly version: { readonly query: string; readonly since: string } | undefined;
  /** Members of the body beside which the option is not known, or with which the caller asks in another way. */
  readonly without: readonly string[];
}
