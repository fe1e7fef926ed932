// Command chat is a chat over erpc: streams both ways, in rooms. Without arguments three people
// talk in one process, over shared memory.
//
//	chat
//	chat -serve 127.0.0.1:31850
//	chat 127.0.0.1:31850 ROOM NAME
//
// The last form says what it reads from its standard input, a line at a time.
package main
