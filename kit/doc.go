// Package kit holds no code itself. The commands and the modules of this repository share the
// packages below it: command lines, flags of keys, load, locks of files, the clock. They are public
// so that a fetched module may use them. They come without a promise: a release may change or
// remove any of them. Programs outside this repository should not import them.
//
// # Map
//
//	owns       nothing
//	called by  nothing
//	never      it holds code
package kit
