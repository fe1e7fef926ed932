package model

import "time"

// NIC has the rates of an adapter, in operations per second.
type NIC struct {
	InRead, InWrite   float64 // served for others
	OutRead, OutWrite float64 // issued
	InSend, OutSend   float64 // datagrams received and sent, see Link.Datagrams
	// PIO is how many lines of 64 bytes processors write to it, per second; 0: no bound.
	PIO float64
	// Contexts is how many connections it holds, 0: all. Each operation of another one keeps the
	// engine that it passes busy for Miss.
	Contexts int
	Miss     time.Duration
}

// Params are the inputs of a model, all of them. None was changed to make a result come out.
type Params struct {
	Server, Client NIC
	Bandwidth      float64 // of the link in each direction, bits per second of payload and headers
	Header         int     // bytes around each message
	RoundTrip      time.Duration
	Inline         int           // bytes; a larger payload is fetched by the adapter
	Fetch          time.Duration // ... which takes so long
	Post           time.Duration // processor time to post an operation and to take its completion
	Touch          time.Duration // processor time to read or write a message in memory
	DRAM           time.Duration // a random access beyond the caches
}

// The sources.
//
//	RFP      "RFP: a remote fetching paradigm", the early version, table and section numbers of it
//	RF-RPC   "RF-RPC: Remote Fetching RPC Paradigm for RDMA-Enabled Network", TPDS
//	HERD     "Using RDMA Efficiently for Key-Value Services", SIGCOMM 2014
//	review   the comment of June 7, 2017 under the review of RFP's EuroSys version
const (
	// Peak rate of in-bound READs of 32 bytes; table II gives WRITEs the same: RFP section III.B.
	paperIn = 11.26e6
	// Peak rate of out-bound WRITEs of 32 bytes, each waited for: RFP section III.B; table II gives
	// READs the same.
	paperOut = 2.11e6
	// Out-bound WRITEs per second of one thread that waits for each: RFP table I, first row.
	oneThread = 0.62e6
	// 40 Gbit/s signalled (RFP section V.A) by a switch of the QDR generation, which codes 8 bits in
	// 10 (InfiniBand architecture, volume 2).
	qdr = 40e9 * 8 / 10
	// LRH 8, BTH 12, RETH 16, ICRC 4, VCRC 2: InfiniBand architecture, volume 1, chapter 5.
	ibHeader = 8 + 12 + 16 + 4 + 2
	// Payloads below are inlined: RF-RPC section 3.2.
	inline = 92
	// Latency of a WRITE of 8 bytes and of 256, which is not inlined: RF-RPC section 2.4.
	write8, write256 = 1120 * time.Nanosecond, 2040 * time.Nanosecond
	// Time of a post: HERD section 4.
	post = 150 * time.Nanosecond
	// One core reads or writes 32 bytes 41.9 million times per second: RFP table II.
	touch = (time.Second + 41_900_000/2) / 41_900_000
	// DRAM takes 60 to 120 ns: HERD section 4; the middle.
	dram = 90 * time.Nanosecond

	// Rates on ConnectX-3 with posts that are not waited for: HERD section 3 (in-bound WRITE and
	// READ, out-bound READ); review (out-bound WRITE, "more than 20").
	herdInWrite, herdInRead  = 35e6, 26e6
	herdOutRead, reviewWrite = 22e6, 20e6
	// Echoes of 32 bytes on the same adapters, by datagrams both ways, and by a WRITE and a datagram
	// back: operations are received in the one, and sent in the other, so often. HERD section 3.2.2,
	// figure 5.
	herdInSend, herdOutSend = 21e6, 26e6
)

// HERD's cluster Apt, whose processors and links to the adapter count.
const (
	// 56 Gbit/s (HERD table 2): four lanes of FDR at 14.0625 Gbit/s, which codes 64 bits in 66
	// (InfiniBand architecture, volume 2).
	fdr = 4 * 14.0625e9 * 64 / 66
	// Half a round trip takes 1 us: HERD section 2.2.1.
	aptRoundTrip = 2 * time.Microsecond
	// Messages that the adapter is advertised to process, "slightly" fewer than the very small
	// WRITEs that it issues: HERD section 3.2.2.
	messages = 35e6
	// Payloads up to here are inlined: HERD section 2.2.2.
	aptInline = 256
	// Six cores send 4.32 million responses a second each, which is all that programmed I/O lets
	// through; one of a value of 32 bytes is two lines: HERD section 5.7.
	aptPIO = 6 * 4.32e6 * 2
	// The unit of programmed I/O is a line of the processor's cache: HERD section 3.2.2.
	line = 64
	// A request in the adapter's queue: its head with the address of a WRITE or READ, with that of
	// a datagram's receiver; the head of inlined data, and the address of data that are not. The
	// segments of Linux's include/linux/mlx4/qp.h: 16, 16 and 48, 4, 16.
	requestWrite, requestSend = 16 + 16, 16 + 48
	inlineHeader, segment     = 4, 16
	// HERD has its maximum with up to 260 clients, each with one connection: HERD section 5.5, which
	// suspects the adapter's cache.
	aptContexts = 260
	// 256 active connections leave 21 % of the most out-bound WRITEs: HERD section 3.3. If each of
	// those missed the cache, a miss takes so long.
	aptMiss = time.Second * 79 / (21 * 35_000_000)
)

// The cluster of RF-RPC's section 5.8.
const (
	// An Ethernet of 10 Gbit/s.
	ethernet = 10e9
	// Preamble 8, Ethernet 14, GRH 40, BTH 12, RETH 16, ICRC 4, FCS 4, and the gap of 12 between
	// packets: IEEE 802.3 and annex A16 of the InfiniBand architecture, volume 1.
	roceHeader = 8 + 14 + 40 + 12 + 16 + 4 + 4 + 12
)

// Cores of each machine (RF-RPC section 5.1), and how long a thread keeps one if others want it:
// 0.75 ms times 1 + log2 of 8 cores or more, in the scheduler of the Linux 3.13 that Ubuntu 14.04
// came with (kernel/sched/fair.c: sysctl_sched_min_granularity and get_update_sysctl_factor).
const (
	Cores = 16
	Slice = 3 * time.Millisecond
)

// Paper is the cluster of RFP and RF-RPC: every operation is waited for. Its adapters are of the
// same family as HERD's, from which the rates of datagrams are.
func Paper() Params {
	nic := NIC{InRead: paperIn, InWrite: paperIn, OutRead: paperOut, OutWrite: paperOut,
		InSend: herdInSend, OutSend: herdOutSend}
	wire := func(n int) time.Duration {
		return time.Duration(float64(8*(n+ibHeader)) / qdr * float64(time.Second))
	}
	return Params{
		Server: nic, Client: nic, Bandwidth: qdr, Header: ibHeader,
		RoundTrip: second(1 / oneThread),
		Inline:    inline, Fetch: write256 - write8 - (wire(256) - wire(8)),
		Post: post, Touch: touch, DRAM: dram,
	}
}

// PipelinedReply is Paper, but the server issues its WRITEs without waiting for each, at the rate
// that the review gives. In-bound rates are the paper's.
func PipelinedReply() Params {
	p := Paper()
	p.Server.OutWrite = reviewWrite
	return p
}

// Pipelined has the rates of adapters whose users wait for no single operation, on all machines.
func Pipelined() Params {
	p := Paper()
	nic := NIC{InRead: herdInRead, InWrite: herdInWrite, OutRead: herdOutRead, OutWrite: reviewWrite,
		InSend: herdInSend, OutSend: herdOutSend}
	p.Server, p.Client = nic, nic
	return p
}

// Apt is HERD's cluster: nobody waits for single operations, and posts are programmed I/O.
func Apt() Params {
	p := Paper()
	nic := NIC{InRead: herdInRead, InWrite: herdInWrite, OutRead: herdOutRead, OutWrite: messages,
		InSend: herdInSend, OutSend: messages, PIO: aptPIO, Contexts: aptContexts, Miss: aptMiss}
	p.Server, p.Client = nic, nic
	p.Bandwidth, p.RoundTrip, p.Inline = fdr, aptRoundTrip, aptInline
	return p
}

// RoCE is Paper with another link. The adapters are of the same family, but no rate of theirs is
// known there; they are the same.
func RoCE() Params {
	p := Paper()
	p.Bandwidth, p.Header = ethernet, roceHeader
	return p
}

// second returns a time in seconds.
func second(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// per is the time of one of so many per second.
func per(rate float64) picos { return picos(1e12/rate + .5) }

// Oneway is the part of a round trip that is no stage: wire, switch and buses of one direction.
func (p *Params) Oneway() time.Duration {
	return (p.RoundTrip - p.Post - (per(p.Client.OutWrite) + per(p.Server.InWrite)).duration()) / 2
}
