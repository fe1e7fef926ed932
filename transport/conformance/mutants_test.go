package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// mutants pairs each way of breaking the reference transport with the case that
// must notice it and a part of what that case says.
var mutants = []struct {
	name string
	m    mutant
	by   string
	says string
}{
	{"drops packets of MTU size", mutant{dropFull: true}, "sizes", "went missing"},
	{"drops full packets of bursts", mutant{dropFull: true}, "bursts", "went missing"},
	{"drops the last of a burst", mutant{dropLast: true}, "bursts", "went missing"},
	{"joins two packets", mutant{join: true}, "bursts", "nobody sent"},
	{"cuts a byte off", mutant{cut: true}, "sizes", "nobody sent"},
	{"damages a byte", mutant{damage: true}, "sizes", "nobody sent"},
	{"sends a packet twice", mutant{duplicate: true}, "bursts", "arrived again"},
	{"reorders neighbours", mutant{reorder: true}, "bursts", "after later ones"},
	{"mixes up destinations", mutant{swapDestinations: true}, "bursts to two", "nobody sent"},
	{"leaves Data out without Head", mutant{loseData: true}, "splits", "nobody sent"},
	{"loses an item beyond 256", mutant{sizeLimit256: true}, "bursts", "went missing"},
	{"wrong sender", mutant{wrongFrom: true}, "answer", "packet is from"},
	{"sender not filled in", mutant{staleFrom: true}, "sizes", "packet is from"},
	{"CE not filled in", mutant{staleCE: true}, "sizes", "marked CE"},
	{"Shared not filled in", mutant{staleShared: true}, "sizes", "has Shared true"},
	{"writes to the caller's packet", mutant{writeTx: true}, "sizes", "wrote to the memory"},
	{"keeps the caller's packet", mutant{refTx: true}, "sizes", "nobody sent"},
	{"view overwritten by an arrival", mutant{earlyView: true}, "views", "nobody sent"},
	{"arrival written into a view", mutant{arrivalInView: true}, "views", "nobody sent"},
	{"peer's Close clears views", mutant{freesPeer: true}, "views after close of peer", "nobody sent"},
	{"short slice loses the rest", mutant{rxLosesRest: true}, "receive slices", "went missing"},
	{"returns more than the slice", mutant{rxOverrun: true}, "receive slices", "for a slice of 1"},
	{"empty RxBurst loses packets", mutant{emptyRxLoses: true}, "empty calls", "packets arrived"},
	{"ignores Wake before Wait", mutant{ignoreWake: true}, "wake before wait", "nothing happened"},
	{"ignores Wake during Wait", mutant{ignoreWake: true}, "wake during wait", "nothing happened"},
	{"forgets Wake when nobody waits", mutant{wakeOnlyWaiting: true}, "wake before wait",
		"nothing happened"},
	{"Wake lasts for ever", mutant{stickyWake: true}, "wait really waits", "returned early"},
	{"Wait sees only new arrivals", mutant{waitForArrival: true}, "wait with packets left",
		"nothing happened"},
	{"packet does not end Wait", mutant{noArrivalWake: true}, "wait for packet", "nothing happened"},
	{"Wait without timeout", mutant{noTimeout: true}, "wait timeout", "nothing happened"},
	{"Wait without timeout, guarded", mutant{noTimeout: true}, "wait really waits", "did not return"},
	{"Close leaves Wait blocked", mutant{closeKeepsWait: true}, "close during wait",
		"nothing happened"},
	{"Wait works after Close", mutant{noErrWait: true}, "close during wait", "want ErrClosed"},
	{"TxBurst silent after Close", mutant{noErrTx: true}, "calls after close",
		"TxBurst of 1 after Close"},
	{"TxBurst works after Close", mutant{sendsClosed: true}, "calls after close", "sent after Close"},
	{"RxBurst silent after Close", mutant{noErrRx: true}, "calls after close", "RxBurst after Close"},
	{"Resolve works after Close", mutant{noErrResolve: true}, "calls after close",
		"Resolve after Close"},
	{"Resolve outlives Close", mutant{noErrResolve: true}, "resolve elsewhere", "nothing happened"},
	{"second Close fails", mutant{closeTwiceError: true}, "close twice", "bad file descriptor"},
	{"oversize ends the burst", mutant{bigStops: true}, "oversize", "TxPackets grew by 0"},
	{"oversize is cut and sent", mutant{bigSent: true}, "oversize", "nobody sent"},
	{"oversize not counted", mutant{bigUncounted: true}, "oversize", "TxDropped grew by 0"},
	{"oversize not taken", mutant{bigRefused: true}, "oversize", "takes nothing"},
	{"no destination counts as sent", mutant{zeroSent: true}, "no destination", "TxDropped grew by 0"},
	{"dead destination breaks the sender", mutant{deadBreaks: true}, "dead destination",
		"packets arrived"},
	{"dead destination ends the burst", mutant{deadStops: true}, "dead destination",
		"packets arrived"},
	{"takes a bad address", mutant{badAddrOK: true}, "bad addresses", "want an error"},
	{"panics on a bad address", mutant{badAddrPanics: true}, "bad addresses", "panicked"},
	{"odd error for a bad address", mutant{oddError: true}, "bad addresses", "neither"},
	{"Resolve gives another address", mutant{resolveWrong: true}, "local address", "Resolve"},
	{"no local address", mutant{noAddr: true}, "local address", "no address"},
	{"same address twice", mutant{sameAddr: true}, "local address", "both endpoints"},
	{"kind for any self", mutant{kindOfAll: true}, "kind", "another transport's self"},
	{"kind after close", mutant{kindClosed: true}, "kind", "after Close"},
	{"kind that cannot be compared", mutant{kindSlice: true}, "kind", "cannot be compared"},
	{"kind changes", mutant{kindChange: true}, "kind", "Kind changed"},
	{"capabilities change", mutant{capsChange: true}, "caps", "changed"},
	{"path takes more than the transport", mutant{pathLarge: true}, "path", "has MTU 1401"},
	{"path to nowhere takes nothing", mutant{pathNone: true}, "path", "has MTU 0"},
	{"path changes", mutant{pathChange: true}, "path", "changed"},
	{"path makes hosts faster", mutant{pathDelay: true}, "path", "HostDelay"},
	{"a path is private only by name", mutant{pathPrivate: true}, "path", "and Path says true"},
	{"panics without a destination", mutant{pathPanics: true}, "path", "panicked"},
	{"path panics after Close", mutant{pathClosed: true}, "calls after close", "panicked"},
	{"path clears views", mutant{pathFrees: true}, "views", "nobody sent"},
	{"path is too modest", mutant{pathSmall: true}, "path MTU", "but packets of 1400 bytes"},
	{"path boasts", mutant{dropFull: true}, "path MTU", "went missing"},
	{"TxBurst allocates", mutant{allocTx: true}, "allocations", "allocations"},
	{"RxBurst allocates", mutant{allocRx: true}, "allocations", "allocations"},
	{"gives more hints than fit", mutant{hintMany: true}, "hint of the end", "places gave 3"},
	{"gives no hint", mutant{noHint: true}, "hint of the end", "no hint came"},
	{"gives a hint about another", mutant{hintOther: true}, "hint of the end", "a hint of kind"},
	{"gives hints about the living", mutant{hintAlive: true}, "hints", "about peers that live"},
	{"renews nothing", mutant{renewIdle: true}, "renew", "go on to come from"},
	{"fails to renew", mutant{renewFails: true}, "renew", "Renew: "},
	{"has other addresses", mutant{addrsOther: true}, "local address", "Addrs"},
	{"bad addresses have addresses", mutant{addrsOther: true}, "bad addresses", "Addrs"},
	{"refuses memory", mutant{registerFails: true}, "memory", "no such memory"},
	{"Wake does not end a nap", mutant{napDeaf: true}, "nap", "Nap, with Wake: nothing happened"},
	{"naps after Close", mutant{napClosed: true}, "nap", "want ErrClosed"},
	{"naps at times", mutant{napFickle: true}, "nap", "and before ErrUnsupported"},
	{"steps without descriptors", mutant{stepsAlone: true}, "wait in steps", "without descriptors"},
	{"counts too many sent", mutant{statTx: true}, "stats", "TxPackets"},
	{"counts other bytes", mutant{statBytes: true}, "stats", "TxBytes"},
	{"counts too few received", mutant{statRx: true}, "stats", "RxPackets"},
	{"does not count stalls", mutant{stall: true}, "stats", "TxStalls"},
	{"leaves a goroutine", mutant{leak: true}, "caps", "goroutines left"},
}

func TestMutants(t *testing.T) {
	impatient := newOptions([]Option{WithPatience(200 * time.Millisecond),
		WithHint(transport.HintUnreachable)})
	for _, x := range mutants {
		t.Run(x.name, func(t *testing.T) {
			c := find(t, x.by)
			got := record(t, func(tb testing.TB) { c.run(tb, openMem(x.m), impatient) })
			if !got.Failed() {
				t.Fatalf("case %q did not notice; it says:\n%s", x.by, got.text())
			}
			if !strings.Contains(got.text(), x.says) {
				t.Fatalf("case %q does not say %q but:\n%s", x.by, x.says, got.text())
			}
			for _, stop := range leaks {
				close(stop)
			}
			leaks = nil
		})
	}
}

// TestMutantsCoverCases: each case has a mutant, so none is there for show.
func TestMutantsCoverCases(t *testing.T) {
	// These look for crashes, deadlocks and data races, which no mutant can have
	// without taking this test down, or repeat what others do at another moment.
	without := map[string]bool{"wake storm": true, "close with packets queued": true}
	for _, x := range mutants {
		find(t, x.by)
		without[x.by] = true
	}
	for _, c := range cases {
		if !without[c.name] {
			t.Errorf("no mutant is caught by case %q", c.name)
		}
	}
}

func find(t *testing.T, name string) *testCase {
	for i := range cases {
		if cases[i].name == name {
			return &cases[i]
		}
	}
	t.Fatalf("no case %q", name)
	return nil
}
