// Command erpc-rfp runs RFP's key-value store Jakiro over shared memory, and beside it the ways of
// answering that the papers on remote fetching compare: results that the client fetches, results
// that the server writes, one at a time or without waiting, messages of several requests, a table
// that clients read by themselves, and this library's RPCs. The rows take turns, and each answer is
// checked.
//
//	erpc-rfp demo
//	erpc-rfp demo --keys 1000000 --rounds 3
//
// # Map
//
//	owns       the command line of remote fetching over shared memory and RDMA
//	called by  people and scripts
//	never      an answer is counted that was not checked
package main
