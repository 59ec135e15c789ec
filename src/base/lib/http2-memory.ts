/**
 * `maxSessionMemory` of every h2 session, megabytes: a bound that is never met. node:http2 counts what a stream had not sent yet when it was reset, or left, as
 * memory of its session for as long as that lives, though it is free, and refuses all further streams with ENHANCE_YOUR_CALM at ten megabytes, which some
 * hundred streams that break off in the middle come to. What a session really holds is bounded by its streams: their number, windows, fields and queues.
 */
export const SESSION_MEMORY_MB = 1_000_000;
