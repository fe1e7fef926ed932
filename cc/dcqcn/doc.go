// Package dcqcn controls the rate of a session by congestion marks: it is the reaction
// point of DCQCN (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments",
// SIGCOMM 2015).
//
// A [Control] takes of each answer whether its packet met congestion (an echoed CE mark,
// RFC 3168), and says at which rate to send. It does no I/O, reads no clock and
// allocates nothing; it satisfies cc.Controller. The sessions of an endpoint share one
// filled [Config]. It needs switches that mark packets, and a transport that shows the
// marks: without them it never lowers a rate but after timeouts.
//
// # Map
//
//	owns       the rate of one session, from ECN marks
//	called by  a session, for each answer that its bypass does not take
//	never      it reads a clock, allocates, or leaves the rates of its Config
//
// # The algorithm
//
// Alpha, within 0 and 1, estimates how congested the path is. A mark, at most one in
// CNPInterval, cuts the rate:
//
//	target = rate
//	rate  *= 1 - alpha/2
//	alpha  = (1-Gain)*alpha + Gain
//
// Each AlphaInterval without a cut makes alpha *= 1-Gain.
//
// Since the last cut, a timer counts periods of IncreaseInterval, and a byte counter
// periods of IncreaseBytes. At the end of each period of either, rate becomes the mean
// of rate and target, after
//
//	fast recovery      nothing, while both have counted less than Stages
//	additive increase  target += AddRate
//	hyper increase     target += HyperRate*i, i = least of both - Stages, if above 0
//
// # Where this differs from what is published
//
// There are no notification packets (CNP). Each answer carries its packet's mark, and
// the sender leaves out what comes within CNPInterval of a cut. So a lost answer loses
// a mark only if it was the only one.
//
// Timers are looked at when an answer comes. The periods that passed meanwhile are made
// up for, 32 increases one by one and the rest by a closed formula, so that the work
// does not grow with the time that passed. The byte counter counts bytes that were
// answered, not those that were sent.
//
// A rate within AddRate of the link's becomes the link's, and alpha 1 again, as for a
// session that begins: its first mark halves the rate. Otherwise an idle session, whose
// alpha has fallen to 0, would need milliseconds to take part in an incast's decrease.
//
// A timeout halves the rate and makes that the target as well.
//
// # Parameters
//
//	CNPInterval       50 us    the paper
//	AlphaInterval     55 us    the paper
//	IncreaseInterval  55 us    the paper
//	IncreaseBytes     10e6     the paper, 10 MB
//	Stages            5        the paper, F
//	Gain              1/256    the paper, g
//	AddRate           2e6      ours by simulation; the paper 40 Mbit/s, which is 5e6
//	HyperRate         50e6     ten times the paper's AddRate, as is usual
//	MinRate           1.25e6   ours, 10 Mbit/s
//
// The package's tests hold a model of one link: 25 Gbit/s, idle round trip 6 us,
// packets of 1000 bytes, each answered, 32 credits per session, all sessions starting
// at link rate; marks from 5 kB in the queue on, rising to a probability of pMax at
// 200 kB. Time in the queue in us, median and 99th percentile, and the part of the
// link used; Jain's index of fairness is above 0.98 throughout:
//
//	AddRate  pMax    N = 20          N = 50          N = 100
//	2e6      1 %      4  82  94 %    19 103  94 %    55 149  92 %
//	2e6      10 %    19  44 100 %    21  87  96 %    49 135  93 %
//	5e6      1 %     12  95  92 %    49 141  90 %   131 244  88 %
//	5e6      10 %    27  67  99 %    36 119  91 %   116 225  88 %
//	1e6      1 %      4  75  96 %    13  89  96 %    31 115  95 %
package dcqcn
