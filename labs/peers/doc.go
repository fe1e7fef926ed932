// Command peers measures this library beside other RPC libraries, and collects the
// figures of `make bench`. It is a module of its own, so that the library depends on
// none of them.
package main
