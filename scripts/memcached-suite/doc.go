// Command memcached-suite runs memcached's own tests over erpc-kv.
//
//	go run ./scripts/memcached-suite [-run REGEXP] [-j N] [-v]
//
// It fetches the source package memcached of the Debian release that it runs on, by apt-get source
// with a deb-src line of its own, to out/memcached-suite. The tests, t/*.t, are Perl. They start
// memcached-debug in the folder of the source, which is the program of package memcached here: it
// takes the options that tests give, and runs erpc-kv serve with those that mean the same.
//
// Each file has to pass as a whole, beside others or alone, or stand in listed.txt with the reason.
// What is listed must fail: the list only shrinks. A file that skips all of its tests counts as
// failed. On a busy machine getset reads so slowly that the server ends its connection, which wants
// 64 KiB in ten seconds.
package main
