// No caller and no number of orgs makes the series of a metric grow without bound (decisions 4.7, 12.4).
import t from 'tap';
import { labelValues } from '../../../src/surfaces/metrics/label-values.ts';

function counted() {
  const folded = new Map<string, number>();
  const count = (label: string) => ({ inc: () => void folded.set(label, (folded.get(label) ?? 0) + 1) });
  return { folded, count };
}

t.test('a name that nobody knows is other, and so is one too many; both are counted, and a name that was shown stays', (t) => {
  const { folded, count } = counted();
  let asked = 0;
  const org = (id: string): boolean => {
    asked += 1;
    return id.startsWith('org-');
  };
  const labels = labelValues({ org, provider: (id) => id === 'openai', actionType: () => true }, count, 3);
  t.same(
    ['org-1', 'made-up', 'org-2', 'org-3', 'org-4', 'org-1'].map((id) => labels.org(id)),
    ['org-1', 'other', 'org-2', 'org-3', 'other', 'org-1'],
  );
  t.equal(asked, 4, 'nobody is asked about a name that is shown, nor when there is no room');
  t.same([labels.provider('openai'), labels.provider('mine'), labels.provider(undefined)], ['openai', 'other', 'other']);
  t.same(
    [...folded],
    [
      ['org_id', 2],
      ['provider', 1],
    ],
  );
  t.end();
});

t.test('a thousand orgs are five hundred names and other', (t) => {
  const { folded, count } = counted();
  const labels = labelValues({ org: () => true, provider: () => true, actionType: () => true }, count);
  const shown = new Set(Array.from({ length: 1_000 }, (_, at) => labels.org(`org-${at}`)));
  t.equal(shown.size, 501);
  t.equal(folded.get('org_id'), 500);
  t.end();
});
