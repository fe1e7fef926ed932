// Package peer runs the stubs of ycsbpb over RPC libraries: grpc-go on TCP and on a unix socket,
// connect-go, drpc, and grpcerpc over UDP and in shared memory. Listen and Dial choose by name.
//
// All marshal the same messages with the same library, and serve the same store.Service. grpcerpc
// and grpc-go run the generated stub unchanged. drpc does too: its connections have an Invoke of
// the same shape. A connection of drpc carries one call at a time, so each client needs one of its
// own. connect-go's client is generic over the messages, so its stub is written here.
package peer
