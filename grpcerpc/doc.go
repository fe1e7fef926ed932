// Package grpcerpc is gRPC's API over erpc: stubs of protoc-gen-go-grpc run unchanged when the
// lines that dial and listen are.
//
//	cc, err := grpcerpc.NewClient("server:31850")        // in place of grpc.NewClient
//	client := pb.NewGreeterClient(cc)
//
//	s := grpcerpc.NewServer()                            // in place of grpc.NewServer
//	pb.RegisterGreeterServer(s, greeter)
//	err := s.Serve(tr)                                   // a transport, not a listener
//
// # Map
//
//	owns       servers, connections and streams over endpoints of erpc
//	called by  generated stubs, and applications in place of grpc
//	never      a call that may have run is tried again by itself
//
// # Who owns what
//
//	Loops         event loops, with a transport each, that ClientConns share
//	ClientConn    a resolver of grpc, policies, and a part in a loop
//	period        a time in which a ClientConn does not rest, with its resolver and policies
//	policy        a balancer of grpc, current or about to take the current one's place
//	subConn       a server that the balancer asked for: at most one link at a time
//	link          a connection: an erpc.Client, the token that the server drew for it
//	pipe          the streams of a link, and the exchanges that carry them
//	unaryTry      a unary call at one server
//	retryStream   a stream of the application: one clientStream after the other until one counts
//	clientStream  a stream at one server
//	Server        an erpc.Server, the registered services, the connections
//	serverConn    the server's end of a link, found by token and address
//	serverPipe    the server's end of a pipe: its streams by number, exchanges without an answer
//	serverStream  a stream at the server, with the goroutine of its handler
//
// # Messages
//
// Six request types of erpc carry all; package internal/frame has the bytes.
//
// Hello opens a connection: versions, user agent, authority. The server draws a token of 64 bits,
// which counts only from the address that it was given to. Life and Leave follow and stay
// unanswered. When Life's context ends at the server the client is gone, and when it is answered or
// fails at the client the server is. Leave is answered when the server stops, or the connection has
// its age: that is gRPC's GOAWAY. Life goes on until the last call has ended, and then the client
// closes the connection. What it sends before it knows is served, for 5 s at least: then calls are
// refused as such that never ran, and the connection ends with the last one. A request that waits
// at the server costs erpc no credit and no packet.
//
// Unary is a call: token, method, metadata, timeout, message. Its cancellation, its slot and late
// answers are erpc's own, and so is its deadline, but that erpc's packets round it up by at most a
// sixteenth: the timeout is gRPC's, to the microsecond. So are its limits: a call that blocks holds
// a slot, and erpc's Client opens further sessions when slots are in use. Success without metadata
// is a zero byte and the message. Status and details travel in the answer. Large is the same for
// 64 KiB and more: the loop runs handlers itself whose type is quick, and should not run one that
// decodes some MiB. The caller encodes such a request where it is sent from, and decodes an answer
// where it came. Copies of some MiB are made in pieces: see protolarge.go.
//
// Exchange belongs to the streams of a connection: a batch of frames from the client, and a batch
// from the server in its reply, each with a section for every stream that had something to say when
// the loop came to it. Exchanges and replies are numbered and taken in order. A client has up to 8
// under way. A server leaves up to 4 unanswered as long as no stream has anything to say, one fewer
// than the client keeps slots for (erpc.Client.KeepSlots). So a message of either side finds an
// exchange to travel in, messages sent meanwhile gather in batches of 64 KiB, and idle streams cost
// nothing beyond one exchange of their connection: also streams that nobody reads for a millisecond
// have one, so that what the server says comes as far as the window goes. Streams that are ready
// take turns. A packet that is lost holds up all streams of its connection until it is repeated, as
// with HTTP/2. An application that sends and receives in turns on the only stream that is busy runs
// the loop itself, while it waits and to send: see erpc.Loop.Lead. A stream's deadline travels
// once, as gRPC's timeout does, and cancelling it is a flag of its section. An exchange that fails
// ends all streams of its connection.
//
// # Flow control
//
// Each side may have sent as many bytes of a stream's messages as the other one's application has
// read, and 256 KiB, or what WithInitialWindowSize says. A message costs 32 bytes beside its own.
// Limits are sums since the stream's begin, and travel in each section. While RecvMsg waits, its
// message counts as read when its first part has come. So a message may be larger than the window.
// SendMsg waits while more than 64 KiB are left behind, and leaves its message to them, as in
// grpc-go. So an unread stream holds a window at most on each side, beside 64 KiB and a message.
//
// # What a peer can do wrong
//
// Malformed requests are answered with a status. Frames out of order, messages beyond limits and
// windows end their stream; exchanges out of order and sections that cannot be read end the
// connection. The numbers of a connection's streams grow. Hello without Life is forgotten after
// 10 s. An address may have 1024 connections, and a server 65,536. Metadata is bounded as in gRPC.
// A token that is guessed does not help: it counts from its address alone.
//
// # Both networks
//
// Server.ServeTCP answers grpc-go over TCP with the same services. WithTCP lets a client use TCP if
// erpc has no connection, and for calls that certainly never ran. With credentials of NewTLS, or
// erpc.Config.TLS, both sides encrypt over both. A client with other TLS credentials uses TCP
// alone: nothing goes from TLS to plain.
//
// # What differs from grpc-go
//
//   - A panic of a handler is an Internal error for its client; the server goes on.
//   - Without MaxConcurrentStreams a connection has at most 16,384 handlers of streams.
//   - grpc-accept-encoding names the usual compressors that are registered when a client connects
//     (gzip, zstd and such), and that of the call: grpc does not tell which others there are.
//   - An authority of a call (CallAuthority, or of a picker) is refused with TLS, where it could
//     not be checked; so is the ServerName of an address.
//   - The retryPolicy of a service config holds for all calls, as in grpc-go: a stream is tried
//     again until the server has answered and as long as its messages fit into
//     MaxRetryRPCBufferSize. Calls that certainly never ran are tried again by themselves. The
//     metadata grpc-previous-rpc-attempts and grpc-retry-pushback-ms mean what they mean there.
//   - The compressed and the plain length of a payload are the same number for stats handlers.
//   - A unary message is one message of erpc: at most Config.MaxMessage, 65 MiB by default. Those
//     of streams have no such bound.
//   - Keepalive is erpc's, always on: Config.Timing.Heartbeat and FailureTimeout, or the parameters
//     of keepalive for both. Pings go out without calls too.
//   - A server that owes answers and is silent for Timing.SilenceTimeout, 20 ms, gets no calls
//     until it is heard, as in an erpc.Pool: its connection is unhealthy, or in TRANSIENT_FAILURE
//     where the balancer does not listen for health. Half of the addresses at most are left so.
//   - Keys of outgoing metadata with upper case are sent in lower case; gRPC refuses some of them.
//   - SendHeader of a unary handler travels with the answer.
//   - A service config's healthCheckConfig needs no import of grpc's health package.
//   - ResetConnectBackoff is not there.
//   - A connection has at most Config.MaxQueue unary calls, 98,304 by default, those that wait too.
//     Further ones end with ResourceExhausted. While 4 MiB of requests of 16 KiB and more are on
//     their way, others of that size wait; small calls and streams do not wait for them.
//   - Where a server lets an address have no further session, all but seven of its Slots are for
//     unary calls: others wait when so many block. Streams go on: a connection has two slots for
//     itself, and its streams five, or a quarter of fewer than 20. Of 4 slots they have one, and
//     one with unary calls: a call that blocks stops them. Fewer do not serve a connection.
//   - Defaults of erpc.Config that are grpcerpc's own: 64 Slots, 128 Credits, MaxMessage of 65 MiB,
//     MaxBackground of 131,072, of which an address has three quarters, and MaxQueue as much.
//
// # What is refused
//
// Each of these is an error that names it: without WithTCP, transport credentials other than those
// of NewTLS and of packages insecure and local; per-RPC credentials that require security, without
// the first of them; PreparedMsg, call options of grpc that are not in this list (Header, Trailer,
// Peer, WaitForReady, OnFinish, MaxCallRecvMsgSize, MaxCallSendMsgSize, PerRPCCredentials,
// UseCompressor, CallAuthority, CallContentSubtype, ForceCodec, ForceCodecV2,
// MaxRetryRPCBufferSize, StaticMethod; an option of another type means the one that it embeds, and
// nothing with grpc.EmptyCallOption), SetSendCompressor, bundles of a balancer
// (NewSubConnOptions.CredsBundle) with other credentials than those. A hedgingPolicy is skipped and
// logged, as in grpc-go. Of the options of grpc.NewServer and grpc.NewClient those without a
// counterpart here do not compile: channelz, binary logs, xDS, ORCA, dialers, buffer sizes.
package grpcerpc
