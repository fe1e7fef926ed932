// Command erpc-grpc calls methods of gRPC services over erpc without generated code: it asks the
// server for the service's description (the reflection service of gRPC), and turns JSON into the
// request's message and the response's message into JSON.
//
//	erpc-grpc list 127.0.0.1:31850
//	erpc-grpc call 127.0.0.1:31850 /helloworld.Greeter/SayHello '{"name": "World"}'
//
// The server registers google.golang.org/grpc/reflection. Methods with one request and one response
// are called, and those that answer with a stream: each response is printed when it comes. It is a
// command of its own, beside erpc, because of what it links.
package main
