import type { Addon } from '../base/model/org.ts';
import type { HandOn } from './hand-on.ts';
import type { OperationServices } from './services.ts';

/** Has the control plane switch an entry of the catalogue for the org of this gateway. @throws as {@link HandOn} */
export async function switchElsewhere(
  { addon_id: id }: Pick<Addon, 'addon_id'>,
  orgId: string,
  enabled: boolean,
  { addons }: OperationServices,
  handOn: HandOn,
): Promise<void> {
  const show = (): unknown => ({ [id]: addons.listedOne(orgId, id) });
  await handOn({ kind: 'addons.put', entries: [{ id, body: { enabled } }] }, { entity: 'org_addons', object: id, show });
}
