// The client of undici alone: the whole package (fetch, caches, WebSockets) takes three times as long to load, and
// twice the memory (ADR 11).
declare module 'undici/lib/dispatcher/client.js' {
  import { Client } from 'undici';

  // biome-ignore lint/style/noDefaultExport: the file is CommonJS, and exports this class
  export default Client;
}
