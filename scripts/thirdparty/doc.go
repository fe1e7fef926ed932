// Command thirdparty lists the modules that are linked into the commands, with their licenses and
// the texts of these, as binary distributions must carry them.
//
//	go run ./scripts/thirdparty -out THIRD_PARTY.txt     writes the list
//	go run ./scripts/thirdparty -check THIRD_PARTY.txt   exits with status 1 if it is not current
//
// A module counts if a command needs one of its packages on any of the systems that releases are
// made for. Its license is named from phrases of its text. A text that matches none is an error:
// somebody must read it.
package main
