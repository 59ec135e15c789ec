import type { JSX } from 'preact';

/** How much of a limit is used, and what is still to come. @param to the forecast, in percent as `used` is */
export function Bar({ used, to = used, label }: { readonly used: number; readonly to?: number; readonly label: string }): JSX.Element {
  const state = used >= 100 ? ' over' : used >= 80 || to >= 100 ? ' hot' : '';
  const width = (percent: number): string => `${Math.min(100, Math.max(0, percent))}%`;
  return (
    <svg class={`bar${state}`} role="img" aria-label={label}>
      <rect class="to-come" width={width(to)} height="6" rx="3" />
      <rect width={width(used)} height="6" rx="3" />
    </svg>
  );
}
