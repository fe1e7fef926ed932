package erpc

// CCAlgorithm names a congestion control.
type CCAlgorithm uint8

const (
	// CCTimely follows round-trip times (package cc/timely). It is the default.
	CCTimely CCAlgorithm = iota
	// CCDCQCN follows ECN marks (package cc/dcqcn). The switches must set them and the
	// transport must show them.
	CCDCQCN
	// CCNone lets sessions send as fast as their credits allow.
	CCNone
)

// Congestion configures the congestion control of client sessions. The zero value is
// Timely with its defaults. Server sessions need none: they only answer (eRPC,
// section 5.2.1).
type Congestion struct {
	Algorithm CCAlgorithm
	// LinkRate is the rate of the network link in bits per second: the rate at which
	// sessions start, and the most they send at. 0 means what the transport says, and
	// 100 Gbit/s if it does not know.
	LinkRate int64
	// NoRateBypass, NoPacingBypass and NoBatchedTime switch off the three
	// common-case optimisations of eRPC, section 5.2.2, to measure what they bring:
	// no rate update for an uncongested session whose RTT is low, no rate limiter
	// for it, and one reading of the clock per batch instead of per packet.
	NoRateBypass, NoPacingBypass, NoBatchedTime bool
}
