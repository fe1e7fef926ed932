// Command erpc-kv serves a key-value cache or store over erpc, fills it, and measures it with the
// workload of HERD's paper (section 5): keys of 16 bytes, values of 32, 95 or 50 % GETs, uniform or
// Zipf keys.
//
//	erpc-kv demo
//	erpc-kv serve --addr 127.0.0.1:31870 --partitions 2 --memory 1024
//	erpc-kv load --keys 1000000
//	erpc-kv bench --gets 0.5 --zipf 0.99
//	erpc-kv bench --rate 100000
//	erpc-kv put greeting hello --life 60
//	erpc-kv get greeting
//	erpc-kv stats
//	erpc-kv serve --design herd --addr 10.0.0.1:31870
//	erpc-kv plots --out out/kv
//	erpc-kv designs --addr 10.0.0.1:0
//
// # Map
//
//	owns       the command line of the key-value server, its load
//	called by  people and scripts
//	never      an answer is counted that was not checked
package main
