import type { YAMLError } from 'yaml';

/*
 * What to do about a mistake of YAML itself, by the parser's code for it. Its messages are in the words of the YAML specification, which who writes a file
 * need not know.
 */

const QUOTE_IT = 'put the whole text in quotes';
const SAME_COLUMN = 'keys of one map stand in one column: indent this line, or the next, as the keys around it';

const BY_CODE: Readonly<Partial<Record<YAMLError['code'], string>>> = {
  BAD_ALIAS: '& and * are signs of YAML: put the whole text in quotes if it is meant as text',
  BAD_COLLECTION_TYPE: 'remove the tag (!…)',
  BAD_DIRECTIVE: 'remove the line that begins with %',
  BAD_DQ_ESCAPE: 'in double quotes a backslash begins an escape: double it, or use single quotes',
  BAD_INDENT: SAME_COLUMN,
  BAD_SCALAR_START: QUOTE_IT,
  BLOCK_AS_IMPLICIT_KEY: SAME_COLUMN,
  BLOCK_IN_FLOW: 'in { } and [ ] members are separated by commas, and a text with a colon and a space needs quotes',
  DUPLICATE_KEY: 'keep one of the two',
  MULTILINE_IMPLICIT_KEY: 'a key has its colon, with a space behind it, on its own line; check also the indentation around it',
  MULTIPLE_DOCS: 'remove the line ---',
  TAB_AS_INDENT: 'indent with spaces',
  TAG_RESOLVE_FAILED: 'tags (!…) are not used here: write the plain value',
  UNEXPECTED_TOKEN: 'a comma, a colon or a closing bracket or quote is missing, or is one too many, at or before this place',
};

const BY_TEXT: readonly (readonly [RegExp, string])[] = [
  [/without - indicator/, 'begin the item with "- ", or indent the line as the keys around it'],
  [/^Missing ,/, 'members in { } and [ ] are separated by commas'],
  [/^Missing space/, 'put a space behind the colon'],
  [/quote/, 'a quote that is opened at or before this place is not closed'],
  [/\}$/, 'a { is not closed: its } is missing, or stands too far left'],
  [/\]$/, 'a [ is not closed: its ] is missing, or stands too far left'],
];

/** A hint for every mistake that the parser finds. */
export function yamlHint({ code, message }: YAMLError): string {
  const byText = code === 'MISSING_CHAR' || code === 'BAD_INDENT' ? BY_TEXT.find(([pattern]) => pattern.test(message))?.[1] : undefined;
  return byText ?? BY_CODE[code] ?? 'check the indentation, and put texts with special characters in quotes';
}
