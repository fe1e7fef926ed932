// Package memcached serves partitions of package mica to existing clients of memcached, over TCP
// and Unix sockets in memcached's text protocol (memcached's protocol.txt): the classic commands
// get, gets, gat, gats, set, add, replace, append, prepend, cas, incr, decr, touch, delete, stats,
// version, verbosity, flush_all and quit, and the meta commands mg, ms, md, ma, me and mn with the
// flags of memcached 1.6.45.
//
// # Map
//
//	owns       connections of memcached's clients, and memory for what they send and are sent
//	called by  cmd/erpc-kv and applications
//	never      a bad command ends more than its connection
//
// # Who owns what
//
// A [Store] runs functions on its partitions, one at a time on each. [Local] is one with a lock per
// partition. kv/server.Server with Config.Shared is one too: then eRPC's clients and memcached's
// share the items. Without Shared each visit waits for the partition's event loop, which is right
// but slow. The clock of the partitions has to be seconds since 1970, since some clients send such
// times.
//
// A connection has a goroutine, and is a pipeline of these parts:
//
//	input     what was read: 4 KiB, or 33 KiB of the account for a longer command, up to 1 MiB for
//	          a line of keys
//	work      a batch of up to 32 commands, views of the input, and their answers; connections that
//	          run commands have one, those that wait have none
//	output    answers: 4 KiB of the work, or a buffer of the account
//	account   memory that all connections share, for lines, for values and for answers
//
// A read is parsed as far as it goes. The commands of a batch run in their order: a visit to a
// partition asks for the lines of memory of all its commands, and then runs those that follow each
// other there. Answers are made where they are sent from, and leave when the client has said no
// more, or when their buffer is full.
//
//	read -> look: a line, its key, its value -> batch full, or no more is there
//	     -> run: Store.Do per partition, answers -> send -> read
//
// A get of many keys is a command for each key and one for END. A value that does not fit behind
// its line is read straight into a buffer of the account, and is run alone.
//
// With [Config.TLS] all connections are encrypted, and clients show certificates if it says so.
// With [Config.Auth] a client shows a user and a password before anything else is done for it.
//
// # What differs from memcached
//
//   - Keys have up to 250 bytes and values up to 1 MiB, as there. A set of a larger value removes
//     the old item, as there, but not from a store, nor does one that finds it full.
//   - The meta flag l is refused: nobody notes when an item was read. h, and fetch of me, say
//     whether an mg has read it. A version that a client chooses (E) has up to 48 bits.
//   - incr, decr, append and prepend of a stale item make it fresh.
//   - The binary protocol, UDP and SASL are refused. So are cache_memlimit, lru_crawler, slabs and
//     other commands for memcached's own memory, by their names.
//   - stats has the general counters, settings, items and slabs (of one class), conns (their
//     number), sizes and reset. Those of commands are of this port's clients.
//   - The value of a refused command is never run as commands. A set with too long a key or wrong
//     flags is answered as there, and its value is read and dropped. Where the line has no length
//     of a value the connection ends. It also ends when a client that has to show a password says
//     something else.
//   - A get may be as long as its client likes. A line of up to 1 MiB is read whole, since clients
//     may read no answer before they have sent all of it. Keys of longer ones, and of those of more
//     than 32 KiB for which there is no memory, are looked up as they come; if one is too long then
//     the error comes behind the answers before it.
//
// # Bad input
//
// What each stranger can do, and what it costs:
//
//	says nothing           4 KiB and a goroutine; [Config.IdleTimeout] ends it
//	sends half a command   what a line or value needs of the account; [Config.ReadTimeout] ends it
//	reads nothing          a buffer of the account at most; [Config.WriteTimeout] ends it
//	has shown no password  4 KiB and a goroutine; more than that at once ends it
//	refused values         nothing: they are dropped as they come
//	long lines             32 KiB, then the connection ends, but for gets
//	other protocols        HTTP, TLS and memcached's binary one: the connection ends at once
//	many connections       those beyond [Config.MaxConns] are closed with an error
//
// The accounts together have [Config.Buffers] bytes. Who needs more than there is waits behind
// those who came before; nobody who holds a buffer waits for one of the same account, or of an
// earlier one of lines, values and answers, so all waiting ends with the timeouts. A set that waits
// in vain is refused, and an answer that does ends its connection. A client with commands and
// answers of up to 4 KiB needs none of it, and waits for nobody.
//
// A quarter of an account is a reserve for buffers of up to 64 KiB, which wait in a queue of their
// own; an account with less beside one largest buffer reserves that. While somebody waits for a
// larger buffer the small ones have no more than the reserve. Who has waited for a second ends the
// connection, of those that hold memory, whose client has sent and taken nothing for longest, if it
// has been a second. So many clients that each do a little now and then can still hold up others,
// until their timeouts.
//
// The timeouts are for progress. A ReadTimeout is for a whole line with a value beside it, of 33
// KiB together; of a larger value it has to bring 16 KiB or the rest. Each 64 KiB of answers have a
// WriteTimeout, and so a client may take 7 kB/s. Over TCP on Linux the server sees each 128 KiB or
// so that a client takes, elsewhere steps as large as the kernel's buffers have them.
//
// When the process has no files left, clients wait for one. With TLS a client has ten seconds for
// its handshake. One that speaks none gets a line that says so.
package memcached
