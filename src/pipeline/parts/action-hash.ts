import { canonicalJson } from '../../base/json/jcs.ts';
import { sha256Hex } from '../../base/lib/sha256.ts';
import type { ActionRequest } from '../../base/model/action-request.ts';

/** SHA-256 over the RFC 8785 form of the action as it was received, before mutations: what an idempotency key and an approval are good for (decisions 6.7, 9.1). */
export function actionHashOf({ org_id, workload_id, action }: ActionRequest): string {
  const { type, method, target_host, target_path, params } = action;
  return sha256Hex(
    canonicalJson({
      org_id,
      workload_id,
      type,
      method,
      target_host,
      params,
      ...(target_path === undefined ? {} : { target_path }),
    }),
  );
}
