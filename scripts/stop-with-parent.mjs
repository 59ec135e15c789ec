/*
 * Loaded into the gateway by start.mjs: when the channel to the launcher closes, the launcher is gone (even by
 * SIGKILL), and the gateway drains and stops as for SIGTERM. The channel itself never keeps the process alive.
 */
if (process.channel) {
  process.channel.unref();
  process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'));
}
