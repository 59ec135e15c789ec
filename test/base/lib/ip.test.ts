import t from 'tap';
import { classifyEgress, IpSet, parseIp } from '../../../src/base/lib/ip.ts';

t.test('addresses are read strictly and written canonically', async (t) => {
  t.equal(parseIp('10.1.2.3')?.text, '10.1.2.3');
  t.equal(parseIp('2001:DB8:0:0::1')?.text, '2001:db8::1');
  t.equal(parseIp('fe80::1%eth0')?.text, 'fe80::1');
  t.equal(parseIp('::ffff:10.0.0.1')?.text, '10.0.0.1', 'a mapped address is the IPv4 address it stands for');
  for (const text of [
    '',
    '1',
    '0x7f.1',
    '010.0.0.1',
    '1.2.3',
    '1.2.3.256',
    '[::1]',
    'localhost',
    '::g',
    '1.2.3.4 ',
    '1.2.3.4.',
    '.1.2.3',
    '1..2.3',
    '1.2.3.4.5',
    '1.2.3.00',
    '::ffff:',
    '::ffff:1.2.3',
    '1.2.3.4:5',
    `${'0:'.repeat(50)}`,
  ]) {
    t.equal(parseIp(text), undefined, JSON.stringify(text));
  }
});

t.test('a set holds its ranges and nothing else', async (t) => {
  const set = IpSet.parse(['10.0.0.0/8', '192.168.1.7', '2001:db8::/33', '::ffff:172.16.0.0/108', '::1']);
  for (const ip of ['10.0.0.0', '10.255.255.255', '192.168.1.7', '2001:db8:7fff::1', '172.16.0.1', '::ffff:10.1.1.1', '::1'])
    t.ok(set.has(ip), ip);
  for (const ip of ['11.0.0.0', '9.255.255.255', '192.168.1.8', '2001:db8:8000::', '172.32.0.1', '::2', 'nonsense', ''])
    t.notOk(set.has(ip), ip);
  t.ok(IpSet.parse(['0.0.0.0/0']).has('255.255.255.255'));
  t.notOk(IpSet.parse(['0.0.0.0/0']).has('::1'), 'all of IPv4 is not IPv6');
  t.ok(IpSet.parse(['::/0']).has('ff02::1'));
  t.ok(IpSet.empty.isEmpty);
  for (const bad of ['10.0.0.0/33', '10.0.0.1/8', '10.0.0.0/', '10.0.0.0/8/8', 'a/8', '::/129', '::ffff:1.2.3.4/95', '10.0.0.0/-1', '']) {
    t.throws(() => IpSet.parse([bad]), RangeError, bad);
  }
});

t.test('no address that is not the public internet passes the egress guard', async (t) => {
  const table: Readonly<Record<string, readonly string[]>> = {
    loopback: ['127.0.0.1', '127.255.255.254', '::1', '::ffff:127.0.0.1', '64:ff9b::7f00:1', '2002:7f00:1::'],
    private: [
      '10.0.0.1',
      '172.16.0.1',
      '172.31.255.255',
      '192.168.0.1',
      'fc00::1',
      'fdff::1',
      'fec0::1',
      '64:ff9b::10.0.0.1',
      '2002:c0a8:101::1',
      '::ffff:192.168.1.1',
    ],
    link_local: ['169.254.0.1', 'fe80::1', 'febf::1'],
    metadata: [
      '169.254.169.254',
      '168.63.129.16',
      '192.0.0.192',
      '100.100.100.200',
      'fd00:ec2::254',
      '64:ff9b::169.254.169.254',
      '2002:a9fe:a9fe::',
      '::ffff:168.63.129.16',
    ],
    unspecified: ['0.0.0.0', '0.1.2.3', '::'],
    shared: ['100.64.0.1', '100.127.255.255'],
    multicast: ['224.0.0.1', '239.255.255.255', 'ff02::1'],
    documentation: ['192.0.2.1', '198.51.100.1', '203.0.113.1', '2001:db8::1', '3fff::1'],
    benchmarking: ['198.18.0.1', '198.19.255.255', '2001:2::1'],
    teredo: ['2001:0:1::1'],
    reserved: [
      '192.0.0.1',
      '192.88.99.1',
      '240.0.0.1',
      '255.255.255.255',
      '::10.0.0.1',
      '::8.8.8.8',
      '64:ff9b:1::8.8.8.8',
      '100::1',
      '2001:10::1',
      '2001:20::1',
      '5f00::1',
      '4000::1',
      'f000::1',
    ],
    not_an_address: ['', 'localhost', '0x7f.1'],
  };
  for (const [reason, addresses] of Object.entries(table)) {
    for (const address of addresses) t.equal(classifyEgress(address), reason, address);
  }
});

t.test('public addresses pass, also inside NAT64 and 6to4', async (t) => {
  const neighbours = [
    '8.8.8.8',
    '1.1.1.1',
    '9.255.255.255',
    '11.0.0.0',
    '172.15.255.255',
    '172.32.0.0',
    '100.63.255.255',
    '100.128.0.0',
    '168.63.129.15',
    '223.255.255.255',
  ];
  for (const address of [
    ...neighbours,
    '2606:4700::1',
    '2a00:1450::1',
    '2001:200::1',
    '64:ff9b::8.8.8.8',
    '2002:808:808::1',
    '::ffff:8.8.8.8',
  ]) {
    t.equal(classifyEgress(address), 'public', address);
  }
});
