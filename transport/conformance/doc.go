// Package conformance holds the tests that every transport passes: the contract
// of [transport.Transport] as code.
//
// A transport's own tests call [Run] with a function that opens two connected
// endpoints:
//
//	func TestConformance(t *testing.T) {
//		conformance.Run(t, func(tb testing.TB) (a, b transport.Transport) {
//			return openLoopback(tb), openLoopback(tb)
//		})
//	}
//
// The network between the two must be idle and loses nothing in practice. The
// contract allows loss, so a case offers at most what fits in Caps.RxRing and
// starts over a few times when packets go missing; it fails when something
// arrives that was never sent, or when packets go missing every time.
//
// Nothing here sleeps: the cases block in Wait, or with [WithAdvance] in nothing
// at all, and give up after [WithPatience]. The tests of this package run the
// cases against transports that are broken on purpose, to prove that each kind
// of breakage is noticed.
//
// # Map
//
//	owns       the tests of the contract
//	called by  tests of each transport
//	never      a transport passes without a test of each rule that its Caps claim
package conformance
