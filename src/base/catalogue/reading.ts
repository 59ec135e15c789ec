import { percentDecoded } from '../lib/percent-text.ts';
import { modelAsSeen } from './model-names.ts';
import type { NamedModels } from './named-models.ts';
import type { NameRule } from './spelling.ts';
import type { Operation, Provider } from './types.ts';

/** How much of a request is understood, and in which form policy sees it. */
export interface Reading {
  /** How the names of its body are written. */
  readonly names: NameRule;
  /** Its provider ignores the case of paths, of names of models: policy sees them in lower case, and rules are compared in lower case with them. */
  readonly foldsPath: boolean;
  readonly foldsModel: boolean;
  /** The model that the provider will take cannot be known. */
  readonly hidesModel: boolean;
  /** Another model than the one that is named may answer, at a price of its own. */
  readonly hidesPrice: boolean;
  /** What the body means is not known, so neither its stream switch nor its other params nor what it may cost. */
  readonly hidesBody: boolean;
}

/** Of a request that is understood as it is written. */
export const PLAIN_READING: Reading = Object.freeze({
  names: 'exact',
  foldsPath: false,
  foldsModel: false,
  hidesModel: false,
  hidesPrice: false,
  hidesBody: false,
});

/** The model that a path names, as policy sees it; undefined when it names none, or none that can be read. */
export function modelInPath({ dialect, modelNames }: Operation, path: string): string | undefined {
  const [route = ''] = path.split('?', 1);
  for (const place of dialect?.model ?? []) {
    const found = place.in === 'path' ? place.pattern.exec(route)?.[1] : undefined;
    const model = found === undefined ? undefined : percentDecoded(found);
    if (model !== undefined) return modelAsSeen(model, modelNames);
  }
  return undefined;
}

/**
 * @param hasModel the model was found where the provider reads it
 * @param named the models that the body names beside it; of an operation that is not known it names none that anybody could know
 */
export function readingOf(
  provider: Provider | undefined,
  operation: Operation | undefined,
  hasModel: boolean,
  named: NamedModels | undefined,
): Reading {
  if (provider === undefined || operation === undefined) return PLAIN_READING;
  const { known, dialect } = operation;
  const foldsModel = operation.modelNames === 'caseless' || operation.modelNames === 'tagged';
  const names = dialect?.names ?? 'exact';
  // A handshake, and a question about a call, run no model.
  const stored = dialect?.modelStored === true && operation.actionType !== 'http.request' && !operation.websocket;
  // Whatever else its body names: it has no place for a model of the caller's.
  const fixed = stored && dialect.model.length === 0;
  const beside = named?.hidden === true;
  if (known && !stored && !beside && !foldsModel && !provider.pathsIgnoreCase && names === 'exact') return PLAIN_READING;
  return {
    names,
    foldsPath: provider.pathsIgnoreCase,
    foldsModel,
    hidesModel: beside || fixed || (!hasModel && (!known || stored)),
    hidesPrice: beside,
    hidesBody: !known,
  };
}
