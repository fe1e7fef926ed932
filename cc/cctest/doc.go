// Package cctest holds the tests that every congestion control passes: the contract
// of [cc.Controller] as code, and models to see how sessions share a link.
//
// An algorithm's own tests call [Run]:
//
//	func TestContract(t *testing.T) {
//		cctest.Run(t, cc.Algorithm{Name: "mine", New: New, Bypass: 25 * time.Microsecond}, minRate)
//	}
//
// Beyond the contract there are
//
//   - [AnySequence], the property test of Run, for algorithms with settings to draw
//     and with promises of their own;
//   - [Bottleneck], a link that sessions share, with [Converge] and [Incast]: how fair,
//     how full and how long the queue is;
//   - [Script] and [Golden], which compare the rates of a scripted series with those of
//     a file in testdata. The flag -rewrite writes the file anew.
//
// Nothing here sleeps or reads a clock: the models have their own time and their own
// random numbers. The tests of this package run all of it on controllers that are
// broken on purpose, to prove that each kind of breakage is noticed.
//
// # Map
//
//	owns       the tests of the contract, models of a shared link
//	called by  the tests of cc/timely, cc/dcqcn, cc/swift and of further controllers
//	never      a model sleeps or reads a clock; production code imports it
package cctest
