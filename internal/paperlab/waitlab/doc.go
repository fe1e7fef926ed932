// Package waitlab compares ways of waiting for requests, as the RR-Compound paper does (sections
// IV-B to IV-E): on the virtual cores of package transport/sim, with the costs of costs.go. Nothing
// here prints.
//
// A server machine has cores, and connections whose clients call in a closed loop: each sends a
// request, waits for the answer, and sends the next one at once or after a pause. Clients have
// machines of their own and are never short of a core. A request is written into the receive ring
// of its connection. How the server learns of it is the [Mode]:
//
//   - BP: each connection has a thread that spins on its ring.
//   - BPTS: as many threads as cores spin, each on the rings of its share of the connections. They
//     look at their descriptors in each turn.
//   - EVENT: as many threads as cores sleep. The adapter interrupts, and the interrupts of all
//     connections run one after the other on one core (RR-Compound IV-B).
//   - BPEV: pollers spin on the rings of all connections and write to the eventfd of a connection
//     whose worker sleeps. Workers spin on the rings of their share for SpinFor, then sleep.
//     Pollers that see nothing for PollersSpin sleep until an interrupt.
//   - Adaptive: as many loops as cores, with the policy of package internal/idle itself. A loop
//     that sleeps is woken by an interrupt, as in EVENT.
//
// A thread's turn is one burst: it looks at its rings, serves what is there, and answers. The core
// on which interrupts run loses no time to them here; their time counts as used.
//
// Time is virtual; a run depends on its configuration and seed alone.
//
// # Map
//
//	owns       the modes of waiting, and what each step costs
//	called by  erpc sim waiting
//	never      a figure depends on the machine
package waitlab
