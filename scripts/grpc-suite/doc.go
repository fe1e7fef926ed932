// Command grpc-suite runs grpc-go's own tests, and other software for grpc-go, over grpcerpc.
//
//	go run ./scripts/grpc-suite [-suite NAME] [-run REGEXP] [-net udp|shm] [-loss SHARE]
//		[-listed skip|only] [-diff] [-v]
//
// The suites are, each with what it runs:
//
//	test         grpc-go's package test
//	interop      grpc-go's interop client against its server, in the cases of interop_test.sh, plain
//	             and with TLS
//	conformance  connectrpc.com/conformance: its client of grpc-go against its server of grpc-go, in
//	             the cases that are for no side alone, which would speak HTTP/2 to the other
//	middleware   the tests of go-grpc-middleware
//	grpcurl      those of grpcurl: reflection and calls
//	gateway      those of grpc-gateway's examples
//	otelgrpc     those of OpenTelemetry's instrumentation of grpc-go
//	ghz          those of ghz's runner, a load generator, and of what it runs
//	examples     grpc-go's examples, each client beside its server, in the cases of examples_test.sh
//
// The go command fetches their modules, of the versions in suites.go, when they run.
//
// It lays a copy of grpc-go's module, of the version that grpcerpc requires, in the folder
// erpc-grpc-suite of the system's temporary files, where logs of tests that fail stay, and gives go
// test an overlay of it in which each NewClient and each Server goes over grpcerpc. The copy
// stays as it was. The overlay hands options on and calls over; -diff prints all of it. A program
// or test without the hook panics: nothing goes over TCP unseen. Package endpoint opens what
// servers listen on: with -net shm clients of the same machine use shared memory, and with -loss
// servers lose a share of the packets, each way.
//
// Each test of grpc-go's package test runs in a process of its own, and what fails beside others
// once more, alone. Tests that fail must be in one of the lists beside this file, and those of the
// lists must fail: lists only shrink.
//
//	http2.txt    (a) the test looks at frames of HTTP/2, or at connections of TCP themselves
//	internal.txt (b) it reaches parts of grpc that grpc keeps for itself
//	open.txt     (c) it should pass
//	upstream.txt (d) it fails with grpc-go over TCP too: such a one may pass
//
// Names of other suites than test have that of the suite before them, as "grpcurl:TestTLS12", and
// "shm:" before that if they fail with -net shm alone. Tests of all
// environments of grpc-go run in two of them, plain and with TLS. That of package net/http has no
// server of grpc.
package main
