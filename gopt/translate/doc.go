// Package translate writes batched functions from functions of one lookup, the second half of the
// G-Opt paper (NSDI 2015, section 3.2) for Go. The command is cmd/gopt.
//
//	//gopt:batch B=16
//	func (t *Table) Get(k uint64) (value uint64, ok bool) {
//		b := &t.buckets[place(k)]
//		gopt.Expensive(b)
//		...
//
// becomes a function that does the same for each element of its slices:
//
//	func (t *Table) GetBatch(ks []uint64, values []uint64, oks []bool)
//
// The function of one lookup stays as it is and is the oracle of the other, since a mark does
// nothing. Parameters become slices, but for the receiver and those that are named as shared; so
// do results, behind them. The first slice says how many lookups there are, and the others are at
// least as long. A slice of results may be the very slice of a parameter.
//
// # Directive
//
//	B=16            how many lookups run interleaved, 1 to 256; 32 without it
//	name=getAll     of the batched function; without it the function's name and "Batch"
//	shared=a,b      parameters that all lookups share
//	values=p        a parameter p *T whose slice is []T: lookup i gets &ps[i], and may write to it
//	with=f:g        calls g where the function calls f, an equal one that is better in a batch
//	backend=switch  stages or switch, in place of the choice below
//
// # Stages
//
// Without a mark in a loop or a branch the function falls into stages, with the marks between them.
// Each stage is a loop over up to B lookups that has the text of the source in it. Variables that a
// later stage names live in an array of B. Where a stage ends with a mark it puts the address
// aside, and one call asks for all of them. Lookups that return before the last stage leave the
// batch: the later stages go through a list of those that are left.
//
// # Switch
//
// Elsewhere a struct per lookup has where it goes on and the variables that live across a mark. All
// lookups under way take turns: each goes on to its next mark, where it stores what has changed and
// puts the address aside; at the end of a round one call asks for all addresses. The paper asks at
// each change. A lookup that returns makes room for the next one at once, where the paper waits for
// the slowest of a batch. Go has neither computed goto nor a goto into blocks: so the blocks that
// have marks become labels and jumps in one block, whose variables are declared at its beginning.
// What has no mark stays as it is written.
//
// # Subset
//
// Every statement and expression of Go may stand in such a function, but for what the list refuses.
// Each refusal has file, line, column and reason; see [Refusal].
//
//   - defer, go, select, and calls of recover
//   - function literals that use variables of the function; those without may stay
//   - range over functions; with a mark in it also over maps, strings, channels and arrays by value
//   - a type switch with a mark in it
//   - goto, if label and goto are not in one statement without marks; Go itself refuses a goto into
//     a block
//   - writes to shared data: to variables of the package, to shared parameters, through pointers,
//     slices and maps, also by append, copy, clear, delete, sends and receives. Called functions
//     are trusted, but get no pointer to a shared parameter or to the receiver.
//   - assignments to a parameter with values itself: what it points at would be shared
//   - a pointer to a variable, also by a slice of an array or by a method, that is used on both
//     sides of a mark: the variable moves between the turns
//   - constants and types that are declared in the function and used on both sides of a mark, types
//     there that the file cannot name, and type parameters called _
//   - a mark that is no statement of its own, or in a function without the directive; a directive
//     without a mark, with unknown words, or on something else than a function
//   - functions without a parameter of their own, and variadic ones; names that are taken
//   - what the translation makes no Go of, which go/types says; that is a fault of this package
//
// A panic of one lookup, such as that of an index out of range, ends the whole batch.
//
// # Output
//
// The file gopt_NAME.go has what the file NAME.go asks for. It depends on the package's text and on
// nothing else: translated twice, on any machine, it is the same. Comments of the source stay where
// they stand, since text is cut and put together, and only names and jumps in it are replaced.
// Output is formatted, and checked by go/types together with the package.
//
// # Map
//
//	owns       the translation of a package's marked functions
//	called by  cmd/gopt
//	never      it writes a function whose answers differ from those of its source
package translate
