// Package endpoint opens what servers of grpc-go's suites listen on.
//
// # Map
//
//	owns       the kind of a server's transport, and the packets that it loses
//	called by  the overlay of grpc-suite
//	never      a client's transport
package endpoint
