/** What stands in the place of a secret wherever it is shown (specification, "Management API": a run of bullets). */
export const MASK = '••••••••••••';

const RUN = /•{3}|(?:%E2%80%A2){3}/i;

/** Whether somebody sends back what he was shown in the place of a secret. */
export function holdsMask(text: string): boolean {
  return RUN.test(text);
}
