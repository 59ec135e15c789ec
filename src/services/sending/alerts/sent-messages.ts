import { newestFirst } from '../../../base/lib/ids.ts';
import type { Effect, Store } from '../../../storage/contract/store.ts';
import { unlessConflict } from '../../registers/commit.ts';
import { removeEntities } from '../../registers/entity-page.ts';

/** Under `newestFirst` of the approval, with the channel behind it. */
const SPACE = 'alert_message';

/** A message about an approval that a channel has sent, and that is told of again when there is more to say. */
export interface StoredMessage {
  readonly approval_id: string;
  readonly channel_id: string;
  /** By what the channel changes it; absent: it sends another one behind it. */
  readonly message?: string;
  /** Which state of the approval it tells (`stateOf`). */
  readonly said: string;
  /** What it is to tell, and by which event: whoever else has that to say leaves it alone. */
  readonly saying?: { readonly state: string; readonly by: string };
}

/** Messages that wait for what becomes of their approvals (decision 11.6). */
export class SentMessages {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  async get(approvalId: string, channelId: string): Promise<StoredMessage | undefined> {
    return (await this.#store.get(SPACE, keyOf(approvalId, channelId))) as StoredMessage | undefined;
  }

  /** What keeps one, for the commit of the note that it was sent. */
  kept(message: StoredMessage): Effect {
    return { op: 'put', space: SPACE, key: keyOf(message.approval_id, message.channel_id), value: message };
  }

  /** What forgets one: nothing more is to be said. */
  forgotten({ approval_id: id, channel_id: channel }: StoredMessage): Effect {
    return { op: 'delete', space: SPACE, key: keyOf(id, channel) };
  }

  /**
   * Whether an event is the one by which this state is told. Of several writers that have it to tell the first one
   * does, also again after a kill.
   */
  async claim(approvalId: string, channelId: string, state: string, by: string): Promise<StoredMessage | undefined> {
    const key = keyOf(approvalId, channelId);
    const found = await this.#store.entity(SPACE, key);
    if (found === undefined) return undefined;
    const message = found.value as StoredMessage;
    if (message.said === state || (message.saying?.state === state && message.saying.by !== by)) return undefined;
    const effect = this.kept({ ...message, saying: { state, by } });
    const expect = [{ space: SPACE, key, version: found.version }];
    return (await unlessConflict(this.#store.commit(undefined, [effect], expect))) ? message : this.claim(approvalId, channelId, state, by);
  }

  /** Removes those of approvals that were opened earlier. @returns how many */
  removeBefore(epochMs: number): Promise<number> {
    return removeEntities(this.#store, SPACE, epochMs, () => true);
  }
}

function keyOf(approvalId: string, channelId: string): string {
  return `${newestFirst(approvalId)}|${channelId}`;
}
