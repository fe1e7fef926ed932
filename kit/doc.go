// Package kit has nothing itself. The packages below it are what the commands and the modules of
// this repository share: command lines, flags of keys, load, locks of files, the clock. They are
// public because Go has no other way for one module to use a package of another. They come without
// a promise: a release may change or remove any of them. Programs outside this repository had
// better not import them.
//
// # Map
//
//	owns       nothing
//	called by  nothing
//	never      it holds code
package kit
