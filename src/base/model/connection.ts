/** How a request arrived (specification, "Connection types"); the gateway sets it, callers never do. */
export const CONNECTION_TYPES = ['direct_api', 'sdk_redirect', 'connect_proxy'] as const;
export type ConnectionType = (typeof CONNECTION_TYPES)[number];

/** `ambient` is traffic that arrived on the second port; everything else is `developer`. */
export const TRAFFIC_CLASSES = ['developer', 'ambient'] as const;
export type TrafficClass = (typeof TRAFFIC_CLASSES)[number];
