// Command steady is one side of a call whose way callpath counts. It is built with coverage
// counters, which count from the time that a steady state is reached.
//
//	steady server    prints its address, and ends when its input does
//	steady client A  calls the server at A
//
// COUNTERS names the folder in which each leaves its counters.
package main
