// Mutants measures how many small faults in a package its tests notice. It drives
// go-gremlins and runs as `make mutants PKG=...` in the root of the module.
//
// gremlins changes one operator at a time and runs the tests: the mutant is killed if they
// fail, it lived if they pass. gremlins keeps nothing before its end, takes every mutant
// of a folder and all folders below it, and knows no equivalent mutants. The driver adds these.
//
//   - It copies the package, its imports and the wanted tests into a scratch
//     module, so that edits in the work tree during a run change nothing. The package may be of a
//     nested module.
//   - It runs gremlins for one file at a time and keeps the outcome in
//     out/mutants/<package>/<file>.json, with a hash of the file and of the tests. A file with
//     the same hash is not run again.
//   - It draws a seeded sample on request. gremlins cannot run single mutants, but its flag
//     --diff leaves out the lines that git reports as unchanged. So the scratch module becomes a
//     git repository, and each drawn line changes by a space at its end. All mutants of
//     a drawn line are in the sample: lines are drawn until there are enough mutants.
//   - A mutant whose own package's tests notice it is not shown to the tests of other packages.
//   - It stands in for the go command under gremlins. The go command exits with status 1 both
//     when a test fails and when the code does not compile; gremlins takes 2 for the latter.
//     A mutant that does not compile is not viable and counts nowhere. The stand-in also limits
//     memory and processor time, for mutants that allocate or spin without end.
//   - It adds to the coverage profile, by which gremlins chooses what to run, the code that the
//     go command does not count: constants and variables of the package, conditions of cases.
//
// Mutants that no test can tell from the code are listed in the file mutants.txt of the
// package, each with its reason. An entry names file, function, kind of mutant and the operator,
// so that it stays right when lines move, names change or the code is written in another way:
//
//	pool.go: Pool.Alloc: CONDITIONALS_BOUNDARY < #2 of 3
//		The reason, in one or more lines.
//
// The number counts the operators of that spelling in the function, mutants or not; it is left
// out if there is one. One operator more or less makes the entry stale: its reason
// has to be read again. Outside of functions the first declared name stands for the function.
// Lines that begin with # are comments. An entry that matches no mutant, or one that a test killed,
// is an error. The tests of this command find entries that name no operator.
//
// The score of a package is the share of killed mutants among those that are viable and not
// equivalent. A mutant whose tests exceeded the time limit counts as killed, one that no test
// reaches as lived.
package main
