import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { packageRoot } from '../../src/base/lib/package-root.ts';

export const MONITORING = join(packageRoot(), 'docs', 'monitoring');

/** An expression that somebody is given, and where it stands. */
export interface Shipped {
  readonly where: string;
  readonly expr: string;
  /** Labels that its legend names. */
  readonly legend: readonly string[];
}

export interface AlertRule {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly description: string; readonly runbook: string };
}

export interface Panel {
  readonly title: string;
  readonly type: string;
  readonly description?: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
}

interface Dashboard {
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly { readonly name: string; readonly definition?: string }[] };
}

export function dashboard(): Dashboard {
  return JSON.parse(readFileSync(join(MONITORING, 'grafana-dashboard.json'), 'utf8')) as Dashboard;
}

export function alertRules(): readonly AlertRule[] {
  const { groups } = parse(readFileSync(join(MONITORING, 'alert-rules.yaml'), 'utf8')) as { groups: { rules: AlertRule[] }[] };
  return groups.flatMap(({ rules }) => rules);
}

/** What Grafana puts in for the variables of the dashboard. */
const VARIABLES: Readonly<Record<string, string>> = { job: '.+', instance: '.+', org: '.*', __rate_interval: '5s', __range: '1m' };

/**
 * Every expression of the dashboard, its variables filled in, and of the rules.
 * @throws Error for a variable that the dashboard does not have
 */
export function shippedExpressions(): readonly Shipped[] {
  const { panels } = dashboard();
  const ofPanels = panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr, legendFormat }) => ({
      where: `panel "${title}"`,
      expr: filledIn(expr),
      legend: [...legendFormat.matchAll(/\{\{\s*(\w+)\s*\}\}/g)].map(([, label = '']) => label),
    })),
  );
  return [
    ...ofPanels,
    ...alertRules().map(({ alert, expr, annotations }) => ({ where: alert, expr, legend: labelsOf(annotations.summary) })),
  ];
}

function labelsOf(template: string): string[] {
  return [...template.matchAll(/\$labels\.(\w+)/g)].map(([, label = '']) => label);
}

function filledIn(expr: string): string {
  return expr.replace(/\$(\w+)/g, (whole, name: string) => {
    const value = VARIABLES[name];
    if (value === undefined) throw new Error(`no variable ${whole}`);
    return value;
  });
}
