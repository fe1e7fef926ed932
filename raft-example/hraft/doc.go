// Package hraft is a Transport for github.com/hashicorp/raft over the RPC library. A
// program that has
//
//	transport, err := raft.NewTCPTransport(addr, nil, 3, timeout, os.Stderr)
//
// switches by writing
//
//	transport, err := hraft.NewUDPTransport(addr, hraft.Config{Timeout: timeout})
//
// One UDP socket serves and calls. All methods are there: RequestVote, RequestPreVote,
// AppendEntries, its pipeline, TimeoutNow, InstallSnapshot as a stream.
//
// # Map
//
//	owns       one endpoint, calls and snapshots of hashicorp/raft
//	called by  programs on hashicorp/raft
//	never      an RPC is answered twice
//
// # On the wire
//
// Requests and answers are the library's structs in MessagePack. An answer begins with
// a byte: 0, or 1 and the text of an error. A pipeline is opened with a random number; each of
// its requests begins with that and with its own place: RPCs may overtake each other, so the
// server puts them in order again. A pipeline that it does not know, it refuses. A snapshot is
// opened, then sent in pieces, each answered when the receiving Raft has read it, then ended,
// which gives the answer.
//
// # Beside raft.NetworkTransport
//
// make hraft-suite runs hashicorp's own tests over this transport. Timeout, MaxRPCsInFlight,
// the address to advertise and ServerAddressProvider mean what they mean there. CloseStreams
// ends pipelines and replaces sessions, but no RPC that is under way.
package hraft
