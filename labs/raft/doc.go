// Command raftstore measures the replicated store of raft-example beside its peers. It is a
// module of its own, since etcd imports much.
//
// Without a subcommand: the latency of one PUT after the other, of the store over grpc-go and, in
// the same run, over this library. The store over grpc-go has the same replicas, state machine
// and log, driven by grpc-go's goroutines. Clients call PUT as a unary RPC; between replicas each
// pair has a stream in each direction, the fastest way in gRPC. They may use all cores, and are
// measured twice: all in one process with the client, and each replica a process of its own, as
// they are deployed.
//
// raftstore load: PUT/s and GET/s of many clients, which are goroutines of this process and share
// some endpoints or connections; each member is a process. The systems take turns: this library's
// store, the same with a lease for reads, both again with clients in event loops in place of
// goroutines, the same over grpc-go, etcd's own server, which runs
// as it is (package embed), and its state machine on hashicorp/raft, over that library's TCP
// transport and over hraft, with clients over this library.
// The systems least and least-loop are the messages of the store without Raft and a store: the
// least program, whose rates no replicated store has on this network.
// Each turn goes on at half of the load that it had, with requests at the times of a Poisson
// process.
// Rows in memory: etcd has its files in a folder in memory and leaves fsync out
// (UnsafeNoFsync). Durable rows: all have their files in one folder, and sync. Keys have 16 B,
// values 64 B; reads are linearizable. CPU is that of all members together, without the clients.
//
// All processes of all systems have the same GOGC, and the same least heap before a collection
// (-gc-heap).
package main
