/**
 * CPU milliseconds, user and system, that this process has spent since the call: unlike the time on a wall, they do not
 * grow when others take the cores.
 */
export function cpuClock(): { spent(): number } {
  const began = process.cpuUsage();
  return {
    spent: () => {
      const { user, system } = process.cpuUsage(began);
      return (user + system) / 1_000;
    },
  };
}
