/** A value, or the promise of one from somebody who has to ask. */
export type Maybe<T> = T | Promise<T>;

/** Goes on with a value, at once when it is here. */
export function when<T, R>(value: Maybe<T>, then: (value: T) => Maybe<R>): Maybe<R> {
  return value instanceof Promise ? value.then(then) : then(value);
}
