// Package timely controls the rate of a session by its round-trip times.
//
// A [Control] takes each measured round trip and says at which rate to send. It does no
// I/O, reads no clock and allocates nothing; it satisfies cc.Controller. The sessions
// of an endpoint share one filled [Config].
//
// # Map
//
//	owns       the rate of one session, from round trips
//	called by  a session, for each answer that its bypass does not take
//	never      it reads a clock, allocates, or leaves the rates of its Config
//
// # The algorithm
//
// A round trip grows by the time its packet waits in queues. TIMELY (Mittal et al.,
// SIGCOMM 2015, algorithm 1) keeps a moving average, with weight Alpha for the newest,
// of the difference of two round trips in a row. Divided by the least round trip it
// is the gradient: above 0 the queue grows, below 0 it drains. Then:
//
//	rtt < TLow    rate += AddRate
//	rtt > THigh   rate *= 1 - Beta*(1 - THigh/rtt)
//	between       a rule that depends on the gradient
//
// [Paper] has the published rule between the thresholds: rate += AddRate if the
// gradient is not above 0, five times as much after HAIAfter such samples in a row,
// else rate *= 1 - Beta*gradient. It has no unique fixed point: which session gets
// how much is left to chance (Zhu et al., "ECN or Delay", CoNEXT 2016, section 4).
//
// [Patched], the default, is that paper's remedy (its algorithm 2). With the weight
// w = 2*gradient + 1/2, within 0 and 1,
//
//	rate = rate*(1 - Beta*w*error) + AddRate*(1 - w),  error = (rtt - RTTRef)/RTTRef
//
// In balance the gradient is 0 and error = AddRate/(Beta*rate), the same for all: N
// sessions on a link of rate C get C/N each at a round trip of
// RTTRef*(1 + N*AddRate/(Beta*C)).
//
// # Where this differs from what is published
//
// Both papers update once per segment of 16 KB and more. Here every packet may be a
// sample, so a sample makes only a part of a step: the time since the last one in units
// of MinRTT (Paper, as eRPC's C++ implementation does) or of the round trip (Patched).
// The first is many steps in a round trip as soon as there is a queue; all of them
// answer the same queue, so that rates swing: see the last table.
//
// Patched takes away at most MaxDecrease in one such step, not in one sample. Its step
// is at most four times RTTRef long, so that a queue of many milliseconds goes soon.
// Above THigh it uses its own rule with w = 1, since the published one is far weaker
// there than the other just below THigh: sessions whose credits hold the queue a little
// above THigh would stay there.
//
// # Long paths
//
// The thresholds suppose round trips of a few microseconds. A session whose least round
// trip is above BaseRTT has TLow, THigh and RTTRef raised by it, so that a path of
// 300 us or 30 ms is not taken for congestion, and its gradient is measured in its
// own round trips. Up to BaseRTT the least round trip plays no part, on purpose: a
// session that opens while a queue stands sees no shorter one. If that raised its
// thresholds it would push the others aside. So BaseRTT is above the round trips
// that balance leads to, and an idle path between TLow and BaseRTT needs a larger
// TLow: the endpoint adds what hosts are known to add (transport.Path.HostDelay). Without, a
// session alone on such a path gets AddRate/Beta*RTTRef/(rtt-RTTRef), 440 Mbit/s at 56 us,
// whatever its link carries.
//
// # Parameters
//
//	            Patched   Paper     source
//	TLow        25 us     50 us     ours by simulation; TIMELY, section 6, and eRPC
//	                                (NSDI 2019), section 5.2.2
//	THigh       1 ms      1 ms      eRPC's C++ implementation (TIMELY: 500 us)
//	MinRTT      2 us      2 us      eRPC's C++ implementation
//	RTTRef      20 us     -         ours by simulation ("ECN or Delay": TLow)
//	BaseRTT     60 us     60 us     ours, see above
//	Alpha       0.46      0.46      eRPC's C++ implementation
//	Beta        0.03      0.26      ours by simulation; C++ (TIMELY: 0.8)
//	MaxDecrease 0.5       0.5       C++, per sample there
//	AddRate     3e6       5e6       ours by simulation; C++ (TIMELY: 10 Mbit/s)
//	MinRate     1.25e6    1.25e6    ours, 10 Mbit/s; C++ uses 15e6
//	HAIAfter    -         5         TIMELY, section 4.3
//
// [ERPC] and [ECNOrDelay] return the published sets. How the defaults of Patched were
// chosen: AddRate/Beta decides the balance. A round trip well above RTTRef makes flows
// on paths of different length nearly equal (their rates are as AddRate*RTTRef to
// Beta*(rtt-RTTRef), and rtt differs by the paths), a large AddRate makes 100 flows
// swing. RTTRef bounds the delay of few flows. A larger AddRate also fills an idle link
// faster: from MinRate to 25 Gbit/s takes about 1000 round trips. N sessions at MinRate
// must fit the link: below that only their credits bound the queue.
//
// The package's tests hold a model of one link: 25 Gbit/s, idle round trip 6 us,
// packets of 1000 bytes, each answered, 32 credits per session, all sessions starting
// at link rate. Time in the queue in us, median and 99th percentile, part of the
// link used, Jain's index of fairness:
//
//	                         N = 20                N = 50                N = 100
//	Patched                  27  27 100 % 1.00     46  46 100 % 1.00     71  84 100 % 1.00
//	Paper                    46  51 100 % 0.29     25  94  64 % 0.65     16 103  62 % 0.99
//	Patched, Beta 0.26,
//	AddRate 5e6, TLow 50 us,
//	steps of the idle
//	round trip               20 115  64 % 1.00     32 135  71 % 1.00     50 161  73 % 1.00
package timely
