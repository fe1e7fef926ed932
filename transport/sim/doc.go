// Package sim is a deterministic network in memory: endpoints, links, switches
// with shared buffers and ECN, and faults, all on a virtual clock. The endpoint
// code that runs over a real network runs over it unchanged.
//
// # Map
//
//	owns       virtual time, links, switches, sockets, cores, faults
//	called by  erpc by the contract; simhost, tests, experiments
//	never      two runs with one seed differ
//
// # Determinism
//
// A [Network] has one event queue, ordered by time and then by the order in
// which events were made, and one seeded random source. It starts no goroutine
// and never reads the machine's clock, so the same seed and the same calls give
// the same run, byte for byte: [Network.TraceHash] tells whether they did. A
// failure is reproduced by its seed and the commit. Everything runs on the
// goroutine that calls [Network.Step], which no two may do at a time.
//
// # Model
//
// Every node has one link to its switch, and any number of endpoints, told apart
// by port. A packet waits in the node's output queue, then in the output queue
// of each switch on its way (store and forward, or cut-through), and arrives in
// the receive ring of the endpoint. With Racks > 1 the switches of the racks are
// joined by one more, or with Spines by one for each uplink, and a flow takes one of the parallel
// uplinks by its hash.
// A switch's buffer is shared by its output queues; a queue drops from its tail
// when the buffer is full, or beyond the dynamic threshold alpha x free buffer
// (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory
// packet switches"). Sizes in queues are sizes on the wire.
//
// Links of rate 0 are infinitely fast and have no queue.
//
// # Processors
//
// An endpoint has a core of its own, of a simple kind: its driver runs at one moment, packets leave
// at that moment, and what the run cost ([EndpointConfig], [Endpoint.Charge]) keeps the next run
// back.
//
// An endpoint with a [Processor] shares virtual cores. Its driver is a [Thread], and so is each of
// [Workers]. A thread works in bursts. A burst happens at one moment, the thread is charged for it
// ([Network.Charge]), and then needs a core for as long. Others see its effects when the
// time charged before has passed: packets leave, jobs are submitted, functions of [Network.Then]
// are called. Meanwhile other threads can take the core, at the end of a slice. [Waiting] says
// whether a thread without work keeps its core (polling) or sleeps and has to be woken.
//
// Memory is not delayed: what a burst writes into memory that threads share, others see from its
// first moment on.
//
// # Sockets
//
// An endpoint can have what a kernel's socket has: a receive buffer in bytes
// ([EndpointConfig.RxBuffer]), and stamps of when packets came into it
// ([EndpointConfig.Stamps]). With a Processor whose cores are busy, its driver comes late, and
// packets wait there or are dropped. [Processor.NewThread] makes those others: threads that charge
// themselves time and wake themselves.
//
// The kernel's own work takes no time: nothing delays an interrupt, so packets enter the socket at
// the moment at which they leave the link, and drops cost nothing. A thread that wakes up waits its
// turn behind all that are ready. Linux lets it go first if it has used less than its share, so the
// model's loops beside others are later than Linux's, as those are that have used up a quota.
// Threads stay where they are counted: no cache is cold on another core.
//
// # Driving
//
// Nobody blocks in a simulation: [Endpoint.Wait] returns at once. Instead the
// owner of an endpoint is a [Driver], given to [Network.Attach], which the
// network runs when there is something to do.
package sim
