import t from 'tap';
import { JsonPicker } from '../../../src/base/json/json-picker.ts';

/** What is picked of a text at these paths, by path. */
function picked(text: string, paths: readonly (readonly string[])[]): unknown[][] {
  const found: unknown[][] = paths.map(() => []);
  const picker = new JsonPicker(paths, (path, value) => found[path]?.push(value));
  picker.push(text);
  picker.end();
  return found;
}

t.test('what is picked at one path does not depend on what is broken at another', (t) => {
  const text = `{${'"noise":tru,'.repeat(100)}"error":{"code":1}}`;
  t.same(picked(text, [['error']]), [[{ code: 1 }]]);
  t.same(picked(text, [['error'], ['noise']]), [[{ code: 1 }], []]);
  t.end();
});

t.test('nor on broken names of deeper levels', (t) => {
  const text = `{"a":{${'"\\x":1,'.repeat(100)}"b":2},"\\u0065rror":3}`;
  t.same(picked(text, [['error']]), [[3]]);
  t.same(picked(text, [['error'], ['a', 'b']]), [[3], [2]]);
  t.end();
});

t.test('where a text held many broken values nothing more is picked', (t) => {
  const text = `{${'"a":tru,'.repeat(100)}"a":1}`;
  t.same(picked(text, [['a']]), [[]]);
  t.end();
});

t.test('paths that are alike are all told, one after the other', (t) => {
  const told: unknown[] = [];
  const picker = new JsonPicker([['a', 'b'], ['c'], ['a', 'b'], ['c'], ['a', 'b']], (path, value) => told.push([path, value]));
  picker.push('{"a":{"b":"x"},"c":[1]}');
  picker.end();
  t.same(told, [
    [0, 'x'],
    [2, 'x'],
    [4, 'x'],
    [1, [1]],
    [3, [1]],
  ]);
  t.end();
});
