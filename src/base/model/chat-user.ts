/** Chats whose buttons decide something. */
export const CHAT_PLATFORMS = ['slack'] as const;
export type ChatPlatform = (typeof CHAT_PLATFORMS)[number];

/** Somebody in a chat, as its product tells of him. */
export interface ChatPerson {
  readonly platform: ChatPlatform;
  /** The workspace that the account is of. */
  readonly team_id: string;
  /** What people call it; absent where that was not told. */
  readonly team_name?: string;
  readonly user_id: string;
  /** The same of the account. */
  readonly name?: string;
}

/** A user of a chat who has proven to hold a management key: what he presses there, that key does (decision 9.8). */
export interface ChatUser extends ChatPerson {
  /** `slack:TEAM:USER`. */
  readonly chat_user_id: string;
  /** Of the key. */
  readonly org_id: string;
  readonly key_id: string;
  readonly key_name: string;
  readonly created_at: string;
}

/** What names a person of a chat among those of all chats. */
export function chatUserId({ platform, team_id: team, user_id: user }: Pick<ChatPerson, 'platform' | 'team_id' | 'user_id'>): string {
  return `${platform}:${team}:${user}`;
}
