// Command erpc-index serves an ordered index over erpc, fills it, and measures it with the workload
// of the eRPC paper's section 7.2.
//
//	erpc-index demo
//	erpc-index serve --addr 127.0.0.1:31860 --snapshot index.snap
//	erpc-index serve --addr 127.0.0.1:31860 --log /var/lib/index --fsync always
//	erpc-index load --keys 1000000
//	erpc-index bench --scans 0.01
//	erpc-index bench --rate 100000
//	erpc-index scan --from user: --count 20
//
// # Map
//
//	owns       the command line of the index server, its load
//	called by  people and scripts
//	never      an answer is counted that was not checked
package main
