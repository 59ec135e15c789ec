/** What an answer is told to. Nothing follows a fault or {@link ResponseParser.stop}. */
export interface ResponseSink {
  /** A 1xx. */
  onInterim(status: number, rawHeaders: readonly string[]): void;
  /** `rawHeaders`: flat name, value list in order and spelling, bytes as Latin-1. */
  onHead(status: number, rawHeaders: readonly string[]): void;
  /** All of the body that one `execute` found, in one piece. False puts off the end of the answer until `resume`. */
  onBody(bytes: Uint8Array): boolean;
  onEnd(trailers: readonly string[]): void;
}
