/*
 * The rule of imports, generated from scripts/floors.json: an import goes down the floors, rooms on one floor do not know each other, nothing
 * goes round in a circle, pure rooms touch no I/O, adapters are picked in one place, and each package is imported from the rooms that list it.
 */
const { floors, pure, strangers, adapters, packages, testPackages } = require('./scripts/floors.json');

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** Rooms that are named in full are not meant by a wildcard. */
const named = floors.flatMap(({ rooms }) => rooms).filter((room) => !room.endsWith('/*'));

/** A room as a pattern of its path below src/, without groups. `surfaces/*` is every room of surfaces/ that is not named elsewhere. */
function roomPattern(room) {
  if (room.endsWith('.ts')) return escaped(room);
  if (!room.endsWith('/*')) return `${escaped(room)}/`;
  const parent = room.slice(0, -1);
  const others = named.filter((other) => other.startsWith(parent)).map((other) => `${escaped(other.slice(parent.length))}/`);
  return `${escaped(parent)}${others.length > 0 ? `(?!${others.join('|')})` : ''}[^/]+/`;
}

const anyOf = (rooms) => `^src/(${rooms.map(roomPattern).join('|')})`;
const packagePath = (names) => `(^|/)node_modules/(@types/)?(${names.map(escaped).join('|')})(/|$)`;

/** The linter shows, with a violation, the comment of the first rule of that name: all of one name say the same. */
const error = (name, comment, from, to) => ({ name, comment, severity: 'error', from, to });

/** @type {import('dependency-cruiser').IConfiguration} */
module.exports = {
  forbidden: [
    ...floors
      .filter(({ floor }) => floors.some((other) => other.floor > floor))
      .map(({ floor, rooms }) =>
        error(
          'looks-down',
          'An import goes down: scripts/floors.json has the floor of each room.',
          { path: anyOf(rooms) },
          { path: anyOf(floors.filter((other) => other.floor > floor).flatMap((other) => other.rooms)) },
        ),
      ),
    ...floors.map(({ rooms }) =>
      error(
        'no-neighbours',
        'Rooms on one floor of scripts/floors.json do not know each other.',
        { path: anyOf(rooms) },
        { path: anyOf(rooms), pathNot: '^src/$1' },
      ),
    ),
    error('no-cycles', 'Type-only imports count.', { path: '^src/' }, { circular: true }),
    error(
      'every-file-has-a-room',
      'A new room gets its line in scripts/floors.json.',
      {},
      { path: '^src/', pathNot: anyOf(floors.flatMap(({ rooms }) => rooms)) },
    ),
    error(
      'every-file-has-a-room',
      'A new room gets its line in scripts/floors.json.',
      { path: '^src/', pathNot: anyOf(floors.flatMap(({ rooms }) => rooms)) },
      {},
    ),
    error(
      'pure-rooms-touch-no-io',
      'They take what they need as arguments.',
      { path: anyOf(pure.rooms) },
      { dependencyTypes: ['core'], pathNot: `^(node:)?(${pure.builtins.map(escaped).join('|')})$` },
    ),
    error(
      'strangers',
      'What several of these files need is a function in a room below.',
      { path: anyOf(strangers) },
      { path: anyOf(strangers) },
    ),
    error(
      'drivers-in-one-place',
      'Everybody else opens a store by storage/drivers, and speaks to storage/contract.',
      { path: '^src/', pathNot: anyOf([...adapters.importers, ...adapters.rooms]) },
      { path: anyOf(adapters.rooms) },
    ),
    ...[...new Set(Object.values(packages).flat())].map((name) => {
      const rooms = Object.keys(packages).filter((room) => packages[room].includes(name));
      return error(
        'one-package-one-room',
        'Only the rooms that list a package under `packages` of scripts/floors.json import it.',
        { path: '^src/', pathNot: anyOf(rooms) },
        { path: packagePath([name]) },
      );
    }),
    error(
      'every-package-has-a-room',
      'A new dependency gets its room in scripts/floors.json.',
      { path: '^src/' },
      { path: '(^|/)node_modules/', pathNot: packagePath(['node', ...Object.values(packages).flat()]) },
    ),
    error('test-packages-stay-in-test', 'The product does not need them.', { path: '^src/' }, { path: packagePath(testPackages) }),
    error(
      'src-stands-alone',
      'The product never imports its tests, scripts or benchmarks.',
      { path: '^src/' },
      { path: '^(test|scripts|bench)/' },
    ),
    error('imports-resolve', 'What the linter cannot resolve, it cannot judge.', { path: '^src/' }, { couldNotResolve: true }),
  ],
  options: {
    doNotFollow: { path: ['(^|/)node_modules/', '^(test|scripts|bench)/'] },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'default', 'types'],
      mainFields: ['module', 'main', 'types'],
    },
    skipAnalysisNotInRules: true,
  },
};
