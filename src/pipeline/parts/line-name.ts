/**
 * `direct` structured API, `proxied` redirect, absolute-form and intercepted calls, `tunnel` a CONNECT that is decided
 * by its host alone, `socket` a call on a WebSocket that is open.
 */
export type LineName = 'direct' | 'proxied' | 'tunnel' | 'socket';
