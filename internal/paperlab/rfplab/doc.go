// Package rfplab repeats the experiments of the papers on remote fetching, and of HERD's on verbs,
// with the library's own client and server on the network of package rfp/onesided/model, whose
// parameters are the papers' measurements of adapters alone. Time is virtual, and a run depends on
// its configuration and seed alone. Nothing here prints.
//
// A server thread takes, for each request, the time to read it, to look in two places of memory,
// and to write the result; a client thread that to write a request and to read a result; both that
// of each post. A client's thread that waits costs nothing: it is as if it slept or had other work,
// so processor time of clients counts what they do, not how long they wait.
//
// HERD's experiments have no protocol: [Verbs] issues single operations, and [Echo] is a call of
// one message each way.
//
// The papers' clients wait for each operation. With Config.Paper these do too.
//
// # Map
//
//	owns       the experiments on remote fetching and on verbs
//	called by  erpc sim rfp, erpc sim herd
//	never      a result of the papers is an input of the model
package rfplab
