import type { ModelNames } from './types.ts';
import { withoutCollection } from './usual-path.ts';

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
