// Package verbs is a thin layer over libibverbs, the user-space interface of InfiniBand,
// RoCE and iWARP adapters: devices, ports, GIDs, protection domains, memory regions,
// completion queues with channels, address handles, and queue pairs of the types UD, UC
// and RC with SEND, WRITE, WRITE_WITH_IMM and READ. It is the only package with cgo.
//
// # Map
//
//	owns       devices, queue pairs and memory regions of libibverbs
//	called by  transport/ud, kv/herd/rdma and rfp/onesided/rc
//	never      a build or a start fails for lack of the library
//
// # How it is built
//
// Three things may be missing: cgo, the header <infiniband/verbs.h> (Debian: libibverbs-dev),
// and on the machine that runs the program the library libibverbs.so.1 (libibverbs1, with
// the drivers in ibverbs-providers). None of them may break a build or the start of a
// program that uses other transports, so:
//
//   - without cgo, and outside Linux, stub.go takes the place of cgo.go;
//   - with cgo but without the header, shim.c notices that by __has_include and compiles to
//     a stub, since a build tag cannot see headers;
//   - the library is never linked: shim.c opens it at run time (dlopen), once.
//
// If anything is missing, [Available] and each call that would need it return a [*MissingError],
// which says what it is and how to get it. The alternative, declaring the layout of the library's
// structs ourselves, would need no header but breaks silently when the layout changes.
//
// The go command does not notice when the header is installed after the package was built:
// "go build -a ./internal/verbs" or another CGO_CFLAGS makes it look again.
//
// # Remote memory
//
// [PD.Register] with remote rights gives a key; who has it and a queue pair of the same protection
// domain can WRITE to that region, or READ it over RC, and to no other. [QP.Connect] connects two
// queue pairs, whose numbers, keys and addresses their programs exchange by other means. A WRITE
// of UC tells the receiver nothing and is not repeated: the receiver polls its memory. Which byte
// of a WRITE arrives first is not specified. Devices place a packet from left to right in practice,
// so a message should fit in one packet, and its last word should say that all of it is there.
//
// A WRITE or READ that the key does not allow changes nothing. UC drops it; RC ends the connection,
// and the sender's completion has [StatusAccess].
//
// # Cost
//
// [QP.PostSend], [QP.PostRecv] and [CQ.Poll] make one cgo call for a whole burst and
// allocate nothing. Their arrays hold plain numbers, also for addresses: memory that a
// queue pair reads or writes must not be of the Go heap, whose addresses may not be kept
// by C. Package hugemem has such memory.
//
// # Threads
//
// Everything of one queue pair and its completion queues is for one goroutine at a time.
// Memory regions and address handles can be made and freed from any. Close in
// the reverse order of making: the library refuses to free what is in use (EBUSY).
package verbs
