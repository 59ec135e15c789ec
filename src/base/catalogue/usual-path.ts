import type { ErrorDetail } from '../lib/gateway-error.ts';
import { isWellFormed } from '../lib/text.ts';
import type { ModelNames, Provider } from './types.ts';

/** Of a model's name, as of every other text (decision 4.7). */
const MAX_MODEL = 256;

/** A path, or what the call has to say before there is one. */
export type UsualPath = { readonly path: string } | { readonly missing: ErrorDetail };

/**
 * Where a structured call goes that names no path: the provider's path for its type, with the model put in (decision
 * 8.6).
 * @param provider undefined: none is known, and the path is `/`
 */
export function usualPath(provider: Provider | undefined, actionType: string, params: Readonly<Record<string, unknown>>): UsualPath {
  if (provider === undefined) return { path: '/' };
  const path = provider.defaultPaths.get(actionType) ?? provider.defaultPath;
  if (path === undefined) return missing('action.target_path', `is required: ${provider.id} has no usual path`);
  if (!path.includes('{model}')) return { path };
  const model = Object.hasOwn(params, 'model') ? params['model'] : undefined;
  if (typeof model !== 'string' || model === '')
    return missing('action.params.model', 'is required, since the path of this connector holds the model');
  if (model.length > MAX_MODEL) return missing('action.params.model', `must be at most ${MAX_MODEL} characters`);
  if (!isWellFormed(model)) return missing('action.params.model', 'is not well-formed Unicode');
  // Google's own name of a model includes its collection, which the path has already.
  const name = path.includes('/models/{model}') ? withoutCollection(model) : model;
  return { path: path.replace('{model}', encodeURIComponent(name)) };
}

function missing(path: string, message: string): UsualPath {
  return { missing: { path, message } };
}

/** The name of a model without Google's collection before it. */
export function withoutCollection(model: string): string {
  return model.startsWith('models/') ? model.slice(7) : model;
}

/** The name of a model in the one form that policy sees, of those under which its provider takes it. */
export function modelAsSeen(model: string, names: ModelNames): string {
  switch (names) {
    case 'exact':
      return model;
    case 'caseless':
      return model.toLowerCase();
    case 'collection':
      return withoutCollection(model);
    case 'tagged':
      return model.toLowerCase().replace(/:latest$/, '');
  }
}
