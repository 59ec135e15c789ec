import fc from 'fast-check';

/*
 * Property tests with one seed for all runs, so that tests say the same of the same commit. `FC_SEED=7` takes another
 * one, `FC_SEED=new` draws one; a failure prints the one it was found with.
 */
const given = process.env['FC_SEED'] ?? '20261121';
fc.configureGlobal(given === 'new' ? {} : { seed: Number(given) });

export { fc };
