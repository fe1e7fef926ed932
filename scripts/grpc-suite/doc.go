// Command grpc-suite runs grpc-go's own tests over grpcerpc.
//
//	go run ./scripts/grpc-suite [-run REGEXP] [-net udp|shm] [-listed] [-diff] [-v]
//
// It lays a copy of grpc-go's module, of the version that grpcerpc requires, in the folder
// erpc-grpc-suite of the system's temporary files, where logs of tests that fail stay, and gives go
// test an overlay of it in which each NewClient and each Server goes over grpcerpc. The copy
// stays as it was. The overlay hands options on and calls over; -diff prints all of it.
//
// Each test of grpc-go's package test runs in a process of its own, and what fails beside others
// once more, alone. Tests that fail must be in one of the lists beside this file, and those of the
// lists must fail: lists only shrink.
//
//	http2.txt    (a) the test looks at frames of HTTP/2, or at connections of TCP themselves
//	internal.txt (b) it reaches parts of grpc that grpc keeps for itself
//	open.txt     (c) it should pass
//
// Tests of all environments of grpc-go run in two of them, plain and with TLS. That of package
// net/http has no server of grpc.
package main
