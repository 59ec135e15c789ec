import { isJsonObject } from '../../base/json/json-object.ts';
import { systemClock } from '../../base/lib/clock.ts';
import { parseWithOne, parseWithWords } from '../checked-arguments.ts';
import { type Command, EXIT_OK, Unusable, UsageError } from '../command.ts';
import { answerText } from '../management/answer-text.ts';
import { changeOnce, refusedUnconfirmed } from '../management/policy-write.ts';
import { readDocument } from '../policy/policy-target.ts';
import { JSON_OPTION, printJson } from '../terminal-text.ts';
import { adminOperationOf, ControlPlaneClient } from './control-plane-client.ts';

const ACCESS = { url: { type: 'string' }, token: { type: 'string' }, ...JSON_OPTION } as const;

/** Replaces the policy of an org by a file. */
export const putBundle: Command = {
  name: 'control-plane bundle put',
  usage: 'ORG FILE|- [--dry-run] [--yes] [--json] [--url http://HOST:PORT] [--token TOKEN]',
  summary:
    'Replaces the policy bundle of an org by a file. One that does not load changes nothing; what changes is shown, and asked for at a terminal.',
  async run(args, io) {
    const { values, words } = parseWithWords(args, { ...ACCESS, 'dry-run': { type: 'boolean' }, yes: { type: 'boolean' } }, 2);
    const [org, file] = words;
    if (org === undefined || file === undefined) throw new UsageError('it takes ORG and the FILE of a bundle, or - for standard input');
    const { text } = await readDocument(file, io);
    const client = await ControlPlaneClient.open(values, io);
    const operation = adminOperationOf('bundle.put');
    const ask = ({ if_match: _tag, ...more }: Readonly<Record<string, unknown>>) =>
      client.json(operation, { org, bundle_yaml: text, ...more }).then(JSON.stringify);
    const how = {
      yes: values.yes === true,
      mayAsk: io.columns !== undefined && file !== '-',
      json: values.json === true,
      isDry: values['dry-run'] === true,
    };
    try {
      return await changeOnce(ask, how, io, (answer) => {
        const { change: _shown, ...stored } = JSON.parse(answer) as Readonly<Record<string, unknown>>;
        return answerText(stored, { things: 'bundles', view: { width: io.columns, now: systemClock.now() } });
      });
    } catch (error) {
      return refusedUnconfirmed(error, putBundle.name, io);
    }
  },
};

/** Shows the policy of an org. */
export const readBundle: Command = {
  name: 'control-plane bundle read',
  usage: 'ORG [--yaml] [--json] [--url http://HOST:PORT] [--token TOKEN]',
  summary: 'The policy bundle of an org: version, sequence, and the text that was given; --yaml: the text alone.',
  async run(args, io) {
    const { values, one: org } = parseWithOne(args, { ...ACCESS, yaml: { type: 'boolean' } }, 'it takes one ORG');
    const client = await ControlPlaneClient.open(values, io);
    const answer = await client.json(adminOperationOf('bundle.read'), { org });
    const text = isJsonObject(answer) ? answer['bundle_yaml'] : undefined;
    if (typeof text !== 'string') throw new Unusable('what was answered is no bundle: is it a control plane?');
    if (values.json === true) printJson(answer, io);
    else
      io.stdout(
        values.yaml === true ? text : answerText(answer, { things: 'bundles', view: { width: io.columns, now: systemClock.now() } }),
      );
    return EXIT_OK;
  },
};
