import type { Versions } from './messages.ts';

/** What a gateway says that has fetched nothing. */
export const NO_VERSIONS: Versions = {
  policy: '',
  workloads: '',
  credentials: '',
  export_config: '',
  addons: '',
  api_keys: '',
  keys: '',
  overlays: '',
};
