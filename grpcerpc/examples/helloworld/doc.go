// Command helloworld is gRPC's first example over erpc.
//
//	helloworld -serve 127.0.0.1:31850
//	helloworld 127.0.0.1:31850 World
package main
