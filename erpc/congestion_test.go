package erpc_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/cc"
	"github.com/userspace-rpc/erpc/cc/dcqcn"
	"github.com/userspace-rpc/erpc/cc/swift"
	"github.com/userspace-rpc/erpc/cc/timely"
	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/invariants"
)

// steady is a congestion control that always wants the same rate.
type steady float64

func (s steady) OnAck(cc.Time, time.Duration, time.Duration, int, bool) (float64, time.Duration) {
	return float64(s), -1
}
func (s steady) OnTimeout(cc.Time) float64 { return float64(s) }

// always returns a configuration under which sessions send at that rate, bytes per second.
func always(rate float64) erpc.Congestion {
	return erpc.Congestion{Algorithm: erpc.CCCustom, LinkRate: 8e9, Custom: cc.Algorithm{
		Name: "steady", Bypass: -1, New: func(float64) cc.Controller { return steady(rate) },
	}}
}

// TestSlowHandlersAreNoCongestion: handlers that take 1 ms inside the loop do not slow a
// session down on an idle network, alone or several in one pass; the same time spent
// on the path does. Eight in a pass take longer than the header can say: no sample.
func TestSlowHandlersAreNoCongestion(t *testing.T) {
	const slow = erpc.Time(time.Millisecond)
	for _, checksum := range []bool{false, true} {
		for _, inFlight := range []int{1, 3, 8} {
			for _, onPath := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v-%d-%v", checksum, inFlight, onPath), func(t *testing.T) {
					w := newStepper(t, erpc.Config{Checksum: checksum}, 32, 32)
					w.req.Free()
					w.resp.Free()
					w.before = func() {
						if !onPath {
							w.p.net.now += slow
						}
					}
					w.finish = func(c erpc.Completion) {
						w.ended(c)
						c.Req.Free()
						c.Resp.Free()
					}
					for range 100 {
						for range inFlight {
							req, _ := w.p.client.Alloc(32)
							resp, _ := w.p.client.Alloc(32)
							if _, err := w.p.client.EnqueueRequest(w.p.sess,
								erpc.Request{Type: 1, Req: req, Resp: resp, Done: w.finish}); err != nil {
								t.Fatal(err)
							}
						}
						if onPath {
							w.p.tick = slow / 2
						}
						for want := w.done + inFlight; w.done < want; {
							w.p.step()
						}
					}
					if _, limited := w.p.sess.Rate(); limited != onPath {
						t.Errorf("limited: %v, want %v", limited, onPath)
					}
					w.p.close()
					st := w.p.client.Stats()
					if p99 := st.RTT.Quantile(0.99); inFlight < 4 && st.RTT.Count == 0 ||
						(p99 > 20*time.Microsecond) != onPath {
						t.Errorf("%d round trips, 99 %% below %v", st.RTT.Count, p99)
					}
				})
			}
		}
	}
}

// TestNoAllocationsLimited: a session that is held below link rate allocates nothing.
func TestNoAllocationsLimited(t *testing.T) {
	if invariants.Enabled {
		t.Skip("assertions allocate")
	}
	for _, size := range [][2]int{{32, 32}, {20_000, 32}, {32, 20_000}} {
		for name, c := range map[string]erpc.Config{
			"limited":          {Congestion: always(1e7)},
			"no pacing bypass": {Experiment: erpc.Experiment{NoPacingBypass: true}},
			"no rate bypass":   {Experiment: erpc.Experiment{NoRateBypass: true}},
			"no batched time":  {Experiment: erpc.Experiment{NoBatchedTime: true}},
		} {
			t.Run(fmt.Sprintf("%s-%d-%d", name, size[0], size[1]), func(t *testing.T) {
				w := newStepper(t, c, size[0], size[1])
				for range 50 {
					w.rpc(t)
				}
				if _, limited := w.p.sess.Rate(); limited != (name == "limited") {
					t.Fatalf("limited: %v", limited)
				}
				if n := testing.AllocsPerRun(200, func() { w.rpc(t) }); n != 0 {
					t.Errorf("%v allocations for one RPC", n)
				}
				w.req.Free()
				w.resp.Free()
				w.p.close()
				st := w.p.client.Stats().Protocol
				if waits := name == "limited" || name == "no pacing bypass"; waits != (st.PaceStalls > 0) {
					t.Errorf("%d waits for the rate", st.PaceStalls)
				}
				if told := name == "limited" || name == "no rate bypass"; told != (st.RateUpdates > 0) {
					t.Errorf("%d rate updates", st.RateUpdates)
				}
			})
		}
	}
}

// TestRateIsKept: a session sends as fast as it may, and no faster, also where the
// time between two packets is more than the rate limiter's horizon.
func TestRateIsKept(t *testing.T) {
	for _, c := range []struct {
		rate float64 // bytes per second
		size int
	}{{2e7, 400_000}, {1e5, 14_480}} {
		w := newStepper(t, erpc.Config{Congestion: always(c.rate)}, c.size, 32)
		w.rpc(t) // meets the control
		for end := w.p.net.now + 50e6; w.p.net.now < end; {
			w.p.step()
		}
		begin := w.p.net.now
		w.rpc(t)
		const perPacket = 1448 + 24 + 66
		packets := (c.size + 1447) / 1448
		least := time.Duration(float64((packets-1)*perPacket) / c.rate * 1e9)
		if took := time.Duration(w.p.net.now - begin); took < least-2*time.Microsecond ||
			took > least+least/100 {
			t.Errorf("%d packets at %v bytes/s took %v, want %v", packets, c.rate, took, least)
		}
		w.req.Free()
		w.resp.Free()
		w.p.close()
	}
}

// TestEndInRateLimiter: sessions that end while they wait for their rate leave no
// trace, and the endpoint goes on.
func TestEndInRateLimiter(t *testing.T) {
	for _, how := range []string{"close session", "cancel", "close endpoint"} {
		t.Run(how, func(t *testing.T) {
			w := newStepper(t, erpc.Config{Congestion: always(1e6)}, 32, 32)
			w.rpc(t)
			req, _ := w.p.client.Alloc(100_000)
			var ended error
			id, err := w.p.client.EnqueueRequest(w.p.sess,
				erpc.Request{Type: 1, Req: req, Done: func(c erpc.Completion) {
					ended = c.Err
					c.Req.Free()
				}})
			if err != nil {
				t.Fatal(err)
			}
			w.p.until(func() bool { return w.p.client.NextWake() < w.p.net.now+5e6 })
			want := erpc.ErrClosed
			switch how {
			case "close session":
				err = w.p.client.CloseSession(w.p.sess)
			case "cancel":
				err = w.p.client.Cancel(id)
				want = erpc.ErrCancelled
			}
			if err != nil {
				t.Fatal(err)
			}
			if how != "close endpoint" {
				if !errors.Is(ended, want) {
					t.Errorf("ended with %v, want %v", ended, want)
				}
				end := w.p.net.now + 20e6
				w.p.until(func() bool { return w.p.net.now > end })
				if how == "close session" {
					w.p.connect()
				}
				w.rpc(t)
			}
			w.req.Free()
			w.resp.Free()
			w.p.close()
			if ended == nil {
				t.Error("the request did not end")
			}
		})
	}
}

// TestCongestionConfig: wrong values are refused when the endpoint is configured, with
// the field's name.
func TestCongestionConfig(t *testing.T) {
	for _, c := range []struct {
		field string
		set   erpc.Congestion
	}{
		{"Congestion.Algorithm", erpc.Congestion{Algorithm: 99}},
		{"Congestion.Custom.New", erpc.Congestion{Algorithm: erpc.CCCustom}},
		{"Congestion.LinkRate", erpc.Congestion{LinkRate: -1}},
		{"Congestion.LinkRate", erpc.Congestion{LinkRate: 1}},
		{"Congestion.LinkRate", erpc.Congestion{LinkRate: math.MaxInt64}},
		{"Congestion.Timely.TLow", erpc.Congestion{Timely: timely.Config{TLow: -1}}},
		{"Congestion.Timely.TLow",
			erpc.Congestion{Timely: timely.Config{TLow: 2 * time.Second, THigh: time.Second}}},
		{"Congestion.Timely.MinRTT", erpc.Congestion{Timely: timely.Config{MinRTT: -time.Second}}},
		{"Congestion.Timely.Beta", erpc.Congestion{Timely: timely.Config{Beta: 1.5}}},
		{"Congestion.Timely.Alpha", erpc.Congestion{Timely: timely.Config{Alpha: math.NaN()}}},
		{"Congestion.Timely.MinRate", erpc.Congestion{Timely: timely.Config{MinRate: math.Inf(1)}}},
		{"Congestion.DCQCN.Gain", erpc.Congestion{Algorithm: erpc.CCDCQCN, DCQCN: dcqcn.Config{Gain: 2}}},
		{"Congestion.DCQCN.CNPInterval",
			erpc.Congestion{Algorithm: erpc.CCDCQCN, DCQCN: dcqcn.Config{CNPInterval: -1}}},
		{"Congestion.Swift.Beta", erpc.Congestion{Algorithm: erpc.CCSwift, Swift: swift.Config{Beta: 2}}},
	} {
		_, err := erpc.NewNexus(erpc.Config{Congestion: c.set})
		var bad *erpc.ConfigError
		if !errors.As(err, &bad) || bad.Field != c.field || !errors.Is(err, erpc.ErrConfig) {
			t.Errorf("%+v: error %v, want one of %s", c.set, err, c.field)
		} else if !strings.Contains(err.Error(), c.field) || bad.Reason == "" {
			t.Errorf("error %q", err)
		}
	}
	for _, ok := range []erpc.Congestion{{}, {Algorithm: erpc.CCDCQCN}, {Algorithm: erpc.CCNone},
		{Algorithm: erpc.CCSwift},
		{LinkRate: 1e9}, always(5), {Timely: timely.Config{Variant: timely.Paper}}} {
		n, err := erpc.NewNexus(erpc.Config{Congestion: ok})
		if err != nil {
			t.Errorf("%+v: %v", ok, err)
			continue
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}
}
