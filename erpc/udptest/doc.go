// Package udptest holds tests only: real processes that call each other over real
// UDP on the loopback, and what happens when they are killed, stopped and restarted.
//
// The test binary starts itself again in the role of a server or a client (see
// role_test.go). Parent and child speak in lines over the child's standard input and
// output. A child ends when its input ends, so none outlives the test.
package udptest
