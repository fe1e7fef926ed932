package conformance

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// OpenFunc opens two endpoints that reach each other. It is called once per case.
// The cases close both; open registers with tb.Cleanup whatever else must go.
type OpenFunc = func(tb testing.TB) (a, b transport.Transport)

// Option changes how [Run] works.
type Option func(*options)

type options struct {
	advance    func()
	third      func(tb testing.TB) transport.Transport
	patience   time.Duration
	reordering bool
	noSelf     bool
	badAddrs   []string
	hint       transport.HintKind
}

// WithAdvance is for transports in virtual time: wherever a case would block in
// Wait it calls advance instead, which moves the clock of the network that was
// opened last to its next event. The cases about blocking are left out; Wait is
// only called where it may not block (after Wake, after Close, with timeout 0).
func WithAdvance(advance func()) Option { return func(o *options) { o.advance = advance } }

// WithThird gives the cases about several destinations another endpoint on the
// network that was opened last. Without it the sender is its own second destination.
func WithThird(open func(tb testing.TB) transport.Transport) Option {
	return func(o *options) { o.third = open }
}

// WithoutSelf says that an endpoint cannot send to itself. Unless there is
// [WithThird], cases that need two destinations are left out.
func WithoutSelf() Option { return func(o *options) { o.noSelf = true } }

// WithReordering says that the network may reorder packets of one flow.
func WithReordering() Option { return func(o *options) { o.reordering = true } }

// WithPatience sets how long a case waits without progress before it gives up on
// an event. The default is 2 s. It is never waited out when all is well.
func WithPatience(d time.Duration) Option { return func(o *options) { o.patience = d } }

// WithBadAddresses sets the texts that Resolve must refuse, for transports whose
// addresses are not "host:port".
func WithBadAddresses(texts ...string) Option { return func(o *options) { o.badAddrs = texts } }

// WithHint says that packets to an endpoint that was closed bring a hint of this kind.
func WithHint(kind transport.HintKind) Option { return func(o *options) { o.hint = kind } }

// Run tests the transport that open makes, one subtest per case. It looks for
// leaked goroutines, so it must not run beside parallel tests.
func Run(t *testing.T, open func(tb testing.TB) (a, b transport.Transport), opts ...Option) {
	o := newOptions(opts)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, open, o) })
	}
}

func newOptions(opts []Option) *options {
	o := &options{patience: 2 * time.Second, badAddrs: badHostPorts}
	for _, opt := range opts {
		opt(o)
	}
	return o
}

// testCase is one subtest. Cases take a testing.TB, so that the tests of this
// package can give them one that only records failures.
type testCase struct {
	name   string
	blocks bool // needs a Wait that really blocks: not for virtual time
	f      func(*rig)
}

func (c *testCase) run(tb testing.TB, open OpenFunc, o *options) {
	if c.blocks && o.advance != nil {
		tb.Skip("virtual time: nothing blocks")
	}
	c.f(newRig(tb, open, o))
}

// cases is the suite.
var cases = []testCase{
	{name: "caps", f: testCaps},
	{name: "local address", f: testLocalAddr},
	{name: "kind", f: testKind},
	{name: "bad addresses", f: testBadAddresses},
	{name: "resolve elsewhere", f: testResolveElsewhere},
	{name: "path", f: testPath},
	{name: "path MTU", f: testPathMTU},
	{name: "sizes", f: testSizes},
	{name: "splits", f: testSplits},
	{name: "oversize", f: testOversize},
	{name: "no destination", f: testNoDestination},
	{name: "bursts", f: testBursts},
	{name: "bursts to two", f: testBurstsToTwo},
	{name: "answer", f: testAnswer},
	{name: "receive slices", f: testReceiveSlices},
	{name: "views", f: testViews},
	{name: "views after close of peer", f: testViewsPeerClosed},
	{name: "empty calls", f: testEmptyCalls},
	{name: "dead destination", f: testDeadDestination},
	{name: "hints", f: testHints},
	{name: "hint of the end", f: testHintOfEnd},
	{name: "renew", f: testRenew},
	{name: "memory", f: testMemory},
	{name: "stats", f: testStats},
	{name: "allocations", f: testAllocations},
	{name: "wake before wait", f: testWakeBeforeWait},
	{name: "wake during wait", blocks: true, f: testWakeDuringWait},
	{name: "wake storm", f: testWakeStorm},
	{name: "wait for packet", blocks: true, f: testWaitForPacket},
	{name: "wait with packets left", blocks: true, f: testWaitPacketsLeft},
	{name: "wait timeout", blocks: true, f: testWaitTimeout},
	{name: "wait really waits", blocks: true, f: testWaitBlocks},
	{name: "nap", blocks: true, f: testNap},
	{name: "wait in steps", blocks: true, f: testSteps},
	{name: "close during wait", blocks: true, f: testCloseDuringWait},
	{name: "close twice", f: testCloseTwice},
	{name: "calls after close", f: testAfterClose},
	{name: "close with packets queued", f: testCloseQueued},
}
