import type { Unit } from '../model/usage.ts';
import type { SpelledPath } from './spelling.ts';

/*
 * What of a body says which models a call runs beside its own, and what it asks for that is billed beside tokens
 * (decisions 6.3, 6.16): data of the wire formats (`named_models`, `asked_units` and `asked_terms` in providers.yaml).
 * In their paths a star stands for each element of a list, or each member of a map.
 */

/**
 * `alternative`: one of them answers in place of the model that is named. `inner`: it runs inside of the call, in
 * addition. `opaque`: it leads to models that only the provider knows.
 */
export type NamedAs = 'alternative' | 'inner' | 'opaque';

/**
 * Which objects at a path are meant: those whose member has one of these values. A star at the end of a value stands
 * for anything.
 */
export interface HolderTest {
  readonly member: string;
  readonly values: readonly string[];
}

/** How often something may be done. The first that is given counts; once where nothing is said. */
export interface CountPlace {
  /** Paths in the holder. */
  readonly own: readonly SpelledPath[];
  /** Path in the body of a maximum that all holders with one share. */
  readonly shared: SpelledPath | undefined;
  /** Path in the holder of a text or a list whose length it is, and so much of that for one. */
  readonly lengthOf: SpelledPath | undefined;
  readonly per: number;
}

/** Tokens of a picture that a model makes. */
export interface PictureRule {
  /** Of one of the usual size at the highest quality. */
  readonly tokens: number;
  /** Of one at this quality; what is not here counts as the highest. */
  readonly byQuality: Readonly<Record<string, number>>;
  /** Pixels of the usual size: a larger one has more tokens, in proportion. */
  readonly pixels: number;
  /** Member that says how many unfinished ones come before it, and the tokens of each. */
  readonly partial: { readonly member: string; readonly tokens: number } | undefined;
  /** Members that say how many pictures it is made of. */
  readonly frames: readonly string[];
}

/** Where models stand in a body. */
export interface ModelPlace {
  readonly as: NamedAs;
  /** The holders. */
  readonly at: SpelledPath;
  readonly only: HolderTest | undefined;
  /**
   * Paths of names in a holder; an empty one is the holder itself. A name is a text, or an object with a member
   * `model`.
   */
  readonly models: readonly SpelledPath[];
  /** Anything but a list of names is not understood. */
  readonly lists: boolean;
  /** Not looked at where the body has this member. */
  readonly unless: string | undefined;
  /** The model of a holder that names none: one that a header of the request names, else this one. */
  readonly header: string | undefined;
  readonly absent: string | undefined;
  /** A holder that names none hides which it is. */
  readonly mustName: boolean;
  /** It is no part of what the call costs. */
  readonly free: boolean;
  /** Paths in a holder of the most that an inner model may say, each time. */
  readonly most: readonly SpelledPath[];
  /** What is assumed of an inner model that has no maximum; undefined: what is assumed of any model (decision 6.5). */
  readonly assumed: number | undefined;
  readonly picture: PictureRule | undefined;
  readonly times: CountPlace;
}

/** The places whose path begins with one name, those with the same path together. */
export interface PlaceGroup {
  readonly at: SpelledPath;
  readonly places: readonly ModelPlace[];
}

/** Where the bodies of a wire format name further models. */
export interface ModelPlaces {
  /** By the outermost name of their path, in each spelling: a body without any of these names no further model. */
  readonly byRoot: ReadonlyMap<string, readonly PlaceGroup[]>;
}

/** What a body asks for of something that is billed beside tokens. */
export interface UnitPlace {
  readonly unit: Unit;
  /** Empty: the body itself. */
  readonly at: SpelledPath;
  readonly only: HolderTest | undefined;
  readonly times: CountPlace;
}

/** Where a body asks for a term of billing. */
export interface TermPlace {
  readonly term: string;
  readonly at: SpelledPath;
  /** Values that mean another one: `fast` is answered, and billed, as `priority`. */
  readonly same: Readonly<Record<string, string>>;
}

/** All of it, of one wire format. */
export interface CallPlaces {
  readonly models: ModelPlaces | undefined;
  readonly units: readonly UnitPlace[];
  readonly terms: readonly TermPlace[];
  /** Dotted paths of all of it, with stars: none may be written in two ways (decision 3.19). */
  readonly paths: readonly string[];
  /** Dotted paths of objects whose members hold in place of those of the body, with stars. */
  readonly bodies: readonly string[];
}
