// Package packaging holds tests of what is released: the image that the Dockerfile describes, the
// licenses of what is linked into the commands, and the one dependency of the library. It has no
// code of its own.
package packaging
