import t from 'tap';
import type { Tunnel } from '../../src/base/model/arrival.ts';
import type { Workload } from '../../src/base/model/workload.ts';
import type { Pipeline } from '../../src/pipeline/parts/call-services.ts';
import { barredOrg } from '../../src/pipeline/passage/caller-org.ts';
import { head } from '../inbound/normalise/heads.ts';

const authority = { host: 'www.example.com', port: 443 };

/** Of a gateway of `own` on which `acme` is not served. */
function registers(own: string | undefined): Pick<Pipeline, 'orgs' | 'workloads' | 'settings' | 'authenticator'> {
  const workload: Workload = { workload_id: 'theirs', org_id: 'acme' };
  return {
    orgs: { isActive: (org) => org !== 'acme', watch: () => () => undefined },
    workloads: {
      onlyOrgOf: (id) => (id === 'theirs' ? workload.org_id : undefined),
      get: (org, id) => (org === 'acme' && id === 'theirs' ? workload : undefined),
      defaultWorkloadId: () => 'default',
      defaultAttribution: () => undefined,
    },
    authenticator: {
      holderOf: (token) => (token === 'gwt_of-acme' ? { workload_id: 'of-several', org_id: 'acme' } : undefined),
    } as Pipeline['authenticator'],
    settings: { orgId: own } as Pipeline['settings'],
  };
}

t.test(
  'an org is known by the gateway, by a header, by the key and by the workload of a CONNECT; one that is not active is enough',
  async (t) => {
    const tunnels: readonly (readonly [
      why: string,
      own: string | undefined,
      tunnel: Partial<Tunnel>,
      headers: Record<string, string>,
      barred: boolean,
    ])[] = [
      ['the gateway’s own', 'acme', {}, {}, true],
      ['the gateway’s own, another one named', 'acme', {}, { 'x-gw-org-id': 'other' }, true],
      ['the gateway’s own, the key of another one', 'acme', { fixedOrg: 'other' }, {}, true],
      ['a header', undefined, {}, { 'x-gw-org-id': 'acme' }, true],
      ['a header at a gateway of another org', 'mine', {}, { 'x-gw-org-id': 'acme' }, true],
      ['a key', undefined, { fixedOrg: 'acme' }, {}, true],
      ['a key behind the header of another org', undefined, { fixedOrg: 'acme' }, { 'x-gw-org-id': 'other' }, true],
      ['a workload that has shown its token', undefined, { fixedWorkload: 'theirs' }, {}, true],
      ['one of an id that another org has as well', undefined, { fixedWorkload: 'both', workloadOrg: 'acme' }, {}, true],
      ['the other one of that id', undefined, { fixedWorkload: 'both', workloadOrg: 'other' }, {}, false],
      ['the user of the proxy', undefined, { proxyUser: 'theirs' }, {}, true],
      ['a header that names the workload', undefined, {}, { 'x-gw-workload-id': 'theirs' }, true],
      [
        'the token of a workload whose id several orgs have',
        undefined,
        { proxyUser: 'of-several', proxyPassword: 'gwt_of-acme' },
        {},
        true,
      ],
      ['a token alone', undefined, { proxyUser: 'gwt_of-acme' }, {}, true],
      ['an id that several orgs have', undefined, { proxyUser: 'of-several' }, {}, false],
      ['a token of another workload', undefined, { proxyUser: 'nobody', proxyPassword: 'gwt_of-acme' }, {}, false],
      ['nothing', undefined, {}, {}, false],
      ['another org', undefined, {}, { 'x-gw-org-id': 'other' }, false],
      ['a workload that nobody knows', 'mine', { proxyUser: 'nobody' }, {}, false],
      ['what is not legible', 'mine', {}, { 'x-gw-org-id': 'a b' }, false],
    ];
    for (const [why, own, tunnel, headers, barred] of tunnels) {
      const found = barredOrg(head({ door: 'connect', headers, tunnel: { authority, ...tunnel } }), registers(own));
      t.equal(found, barred ? 'acme' : undefined, why);
    }
    t.equal(barredOrg(head({ door: 'absolute' }), registers(undefined), 'acme'), 'acme', 'the key of a request by absolute form');
  },
);
