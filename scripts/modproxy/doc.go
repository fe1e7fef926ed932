// Command modproxy puts modules of a git repository into a folder that serves as a Go module proxy,
// as they would be after a release: for scripts/release and scripts/rehearsal. It is a module of
// its own so that the root does not require golang.org/x/mod.
//
//	modproxy -repo FOLDER -proxy FOLDER -version v0.1.0 [-commit HEAD] MODULE-FOLDER...
package main
