package metrics

// Kind says how a measurement behaves.
type Kind uint8

// The kinds.
const (
	Counter   Kind = iota // only grows, but for restarts
	Gauge                 // goes up and down
	Durations             // a histogram of durations
)

// Metric is one measurement of the catalogue.
type Metric struct {
	Name   string
	Help   string
	Unit   string // "By", "s", "bit/s", "{call}" and the like, as UCUM has it
	Kind   Kind
	Labels []string // beside endpoint and loop
}

// The catalogue. Labels come in the order in which Points gives their values.
var (
	Calls = &Metric{"calls", "Calls that ended at a client, or that a server answered, by " +
		"the code of their outcome.", "{call}", Counter, []string{"side", "type", "code"}}
	CallsStarted = &Metric{"calls.started", "Calls that clients started.", "{call}", Counter,
		[]string{"type"}}
	CallLatency = &Metric{"call.latency", "Time of calls: at a client until the response is here, " +
		"at a server from the last packet of the request until the response leaves.", "s", Durations,
		[]string{"side", "type"}}
	HandlerTime = &Metric{"handler.time", "Time until handlers have answered. Of those that run " +
		"inside a loop about one in 50 us is timed, chosen at random, and counts for those that are " +
		"not: count and sum are those of all. Each batch counts once.", "s", Durations,
		[]string{"type"}}
	CallBytes = &Metric{"call.bytes", "Bytes of requests and responses of calls that ended.", "By",
		Counter, []string{"side", "type", "message"}}

	Packets = &Metric{"packets", "Datagrams, and packets in bundles.", "{packet}", Counter,
		[]string{"direction", "kind"}}
	Bytes = &Metric{"bytes", "Bytes of datagrams, without the transport's own headers.", "By",
		Counter, []string{"direction"}}
	TransportCalls = &Metric{"transport.calls", "System calls or doorbells of the transport.",
		"{call}", Counter, []string{"direction"}}
	Flushes = &Metric{"flushes", "Times that the loop waited until the transport referred to no " +
		"buffer.", "{flush}", Counter, nil}

	Retransmits = &Metric{"retransmits", "Packets sent again: after a timeout, on evidence of " +
		"loss, or by a server that was asked again.", "{packet}", Counter, []string{"cause"}}
	Rollbacks = &Metric{"rollbacks", "Times that a request went back to its first packet without " +
		"an answer.", "{rollback}", Counter, []string{"cause"}}
	CreditStalls = &Metric{"credit.stalls", "Times that a request had to wait for credits.",
		"{stall}", Counter, nil}
	PaceStalls = &Metric{"pace.stalls", "Times that a session had to wait for its rate.", "{stall}",
		Counter, nil}
	RateUpdates = &Metric{"rate.updates", "Answers that congestion control was given.",
		"{update}", Counter, nil}

	Drops   = &Metric{"drops", "Packets that were dropped.", "{packet}", Counter, []string{"reason"}}
	Refused = &Metric{"refused", "What was refused to peers that asked for too much, or that " +
		"proved nothing.", "{event}", Counter, []string{"reason"}}

	BlindSpells = &Metric{"blind.spells", "Times that the loop did not look for packets for 10 us " +
		"or longer while it had work.", "{spell}", Counter, nil}
	BlindTime = &Metric{"blind.time", "How long it did not look.", "s", Counter, nil}
	RTT       = &Metric{"rtt", "Round trips without the time that servers held requests.", "s",
		Durations, nil}

	Sessions      = &Metric{"sessions", "Sessions that there are.", "{session}", Gauge, nil}
	SessionEvents = &Metric{"session.events", "Sessions that opened, ended or were refused.",
		"{session}", Counter, []string{"event"}}
	SessionsActive = &Metric{"sessions.active", "Client sessions that have requests.", "{session}",
		Gauge, nil}
	SessionsLimited = &Metric{"sessions.limited", "... of them those that congestion control " +
		"holds below the link's rate.", "{session}", Gauge, nil}
	Rate = &Metric{"congestion.rate", "Rate that congestion control allows the active sessions: " +
		"all together, and the slowest.", "By/s", Gauge, []string{"of"}}
	Queue  = &Metric{"queue", "What waits in the endpoint.", "{item}", Gauge, []string{"queue"}}
	Memory = &Metric{"memory", "Memory of message buffers by use. Reserved is that of the loop, " +
		"shared that of background handlers beside it. Process and limit are those of all endpoints " +
		"together.", "By", Gauge, []string{"use"}}
	Buffers = &Metric{"buffers", "Message buffers in use.", "{buffer}", Gauge, nil}
	Late    = &Metric{"late", "1 if the loop did not answer in time.", "1", Gauge, nil}
)

// Catalogue lists all measurements.
var Catalogue = []*Metric{
	Calls, CallsStarted, CallLatency, HandlerTime, CallBytes, Packets, Bytes, TransportCalls,
	Flushes, Retransmits, Rollbacks, CreditStalls, PaceStalls, RateUpdates, Drops, Refused,
	BlindSpells, BlindTime, RTT, Sessions, SessionEvents, SessionsActive, SessionsLimited, Rate,
	Queue, Memory, Buffers, Late,
}
