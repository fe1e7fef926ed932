// Package paperlab has the subcommands of "erpc sim": the experiments of the papers in virtual
// time, beside the papers' figures. Their results depend on flags and seed alone.
//
// # Map
//
//	owns       the command lines, tables and pictures of the experiments; the packages below run them
//	called by  cmd/erpc
//	never      a result depends on the machine
package paperlab
