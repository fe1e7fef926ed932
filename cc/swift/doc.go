// Package swift keeps the round trips of a session to a target delay: it is Swift (Kumar et
// al., "Swift: Delay is Simple and Effective for Congestion Control in the Datacenter",
// SIGCOMM 2020).
//
// A [Control] takes each measured round trip and says at which rate to send. It does no
// I/O, reads no clock and allocates nothing; it satisfies cc.Controller. The sessions
// of an endpoint share one filled [Config].
//
// # Map
//
//	owns       the window of one session, from round trips and a target
//	called by  a session, for each answer that its bypass does not take
//	never      it reads a clock, allocates, or leaves the rates of its Config
//
// # The algorithm
//
// The window w is counted in packets (section 3.1, algorithm 1). For an answer of so many
// packets, with a round trip of rtt,
//
//	rtt < target   w += AddPackets * answered/w; below one packet, AddPackets * answered
//	otherwise      w *= 1 - min(MaxDecrease, Beta*(rtt - target)/rtt), once in a round trip
//	timeout        w *= 1 - MaxDecrease; after ResetAfter in a row, the least there is
//
// The target rises as windows get small, since N flows that share a link swing by a queue that
// grows with N, and so that the smaller of two windows grows at a delay at which the larger one
// shrinks (section 3.5):
//
//	target = Target + FlowRange * (f(w) - f(FlowMax)) / (f(FlowMin) - f(FlowMax)),  f(x) = 1/sqrt(x)
//
// where the part that is added is at least 0 and at most FlowRange.
//
// # Slow links
//
// A packet of 1500 bytes takes 1.2 ms through 10 Mbit/s: more than any target for data centers. On
// a long path, one whose least round trip is beyond BaseRTT, a session therefore keeps two packets
// of its own in the queue in place of flow scaling (Brakmo, "TCP Vegas", SIGCOMM 1994): its target
// is longer by the time that two packets take at its own rate. There the window grows by a 64th in
// a round trip at least.
//
// A short path with a slow link looks like a queue at first. If the least round trip of 128 in a
// row is more than flow scaling ever allows, though the session had less than one packet under
// way, it is not this session's queue: that length counts as the path's, until round trips are
// shorter. Between Target and Target + FlowRange many flows look like a slow link, and get the
// benefit of the doubt: a session alone behind 100 Mbit/s to 1 Gbit/s, with no host delay, gets a
// fifth of it.
//
// # Where this differs from what is published
//
// Sessions keep to rates (package cc), so the window is kept as a rate: that of w packets in
// Target. The session is told that rate while round trips are at most Target, and w packets in
// a round trip when they are longer. So a growing queue slows a session at once, as a window
// does, before w has changed. Windows below one packet need nothing else: the session paces.
// The most packets under way are the session's credits.
//
// The contract has no count of hops, by which the paper raises the target. The least round
// trip stands for it, beyond BaseRTT only: a session that opens while a queue stands sees no
// shorter one, and would push the others aside if that raised its target. (cc/timely does the
// same.) A path whose idle round trip is between Target and BaseRTT needs a longer Target, and so
// does one whose round trips vary by more than Target without a queue: there a session falls to
// MinRate. The endpoint adds what hosts are known to add (transport.Path.HostDelay).
//
// The paper keeps a second window for the delay of hosts, with a target that follows it, and
// sends by the smaller. Here sessions take off round trips what hosts hold packets for (the
// server's hold time and the own loop's), and tell one delay, in which what is left of the hosts'
// delays looks like the fabric's. A second window needs stamps of when packets reached a host.
//
// The contract tells timeouts and no other losses, so that a loss which is repaired without one
// takes nothing from the window. An answer adds no more than one window's worth. Congestion
// marks play no part. One floor, MinRate, stands for the least window. It is not lower because a
// session waits as long as the rate was when it sent last, however much the rate rises meanwhile:
// after losses a session at 10e3 would stand still for up to a second.
//
// # What peers can do
//
// Round trips that are said to be longer than they are, or absurd, slow down the session that is
// told them: at worst to MinRate until the next answer, and the window falls once in such a
// round trip at most. A peer that makes them shorter (by hold times that are lies) gets what the
// session's floor of round trips and its credits allow, not more; see package session.
//
// # Parameters
//
//	Target       25 us   ours by simulation
//	BaseRTT      60 us   as in cc/timely
//	FlowRange    100 us  ours by simulation; four times Target
//	FlowMin      0.1     as simulators of Swift have it
//	FlowMax      100     as simulators of Swift have it
//	AddPackets   0.1     ours by simulation; simulators of Swift have 1
//	Beta         0.4     ours by simulation; simulators of Swift have 0.8
//	MaxDecrease  0.5     as simulators of Swift have it
//	Packet       1000    the endpoint sets the size of its largest packets, headers included
//	MinRate      100e3   ours: a packet of 1000 bytes in 10 ms, 0.0025 of one in Target
//	ResetAfter   5       ours: some round trips without any answer
//
// A larger AddPackets lets a session rise faster (from nothing to 25 Gbit/s in Target takes
// 780 round trips with 0.1) but makes 100 sessions swing. A larger FlowRange makes sessions on
// paths of different length more equal, at longer round trips.
//
// The package's tests hold a model of one link: 25 Gbit/s, idle round trip 6 us,
// packets of 1000 bytes, each answered, 32 credits per session, all sessions starting
// at link rate. Time in the queue in us, median and 99th percentile, part of the
// link used, Jain's index of fairness, after 60 ms:
//
//	                         N = 20             N = 100            N = 200
//	defaults                 29  32 100 % 1.00  49  81  98 % 1.00  65 112  94 % 0.86
//	FlowRange 150 us         34  36 100 % 1.00  58  95 100 % 1.00  87 129  92 % 0.92
//	AddPackets 0.25,
//	Beta 0.8                 29  35 100 % 1.00  56  98  87 % 1.00  69 154  81 % 0.95
//	AddPackets 1, Beta 0.8   32  53 100 % 1.00  84 174  89 % 0.95  93 340  87 % 0.94
package swift
