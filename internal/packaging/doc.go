// Package packaging holds tests of what is released: the image that the Dockerfile describes, the
// licenses of what is linked into the commands, and the one dependency of the library. It has no
// code of its own.
//
// # Map
//
//	owns       the tests of releases
//	called by  go test
//	never      an artefact differs from what is described
package packaging
