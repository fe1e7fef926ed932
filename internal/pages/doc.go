// Package pages holds tests of the documents: README.md, CONTRIBUTING.md, the pages of docs/ and
// those beside packages. It has no code of its own.
//
// TestCommands extracts every command from them and does with each what the first fitting row of
// commands.txt says: it runs the command, compares its flags with the help of the program, looks
// for the target in the Makefile, looks for the test or benchmark that it names, or leaves it out
// for the reason in the row. A command that no row fits fails the test.
//
// TestErrors and TestSettings compare docs/errors.md and docs/settings.md with the source.
// TestPapersComplete, TestPapersRatios and TestPapersFigures hold docs/papers.md to a row for every
// figure of the papers, to its own ratios, and to what the commands of simulated rows print.
// TestOverview counts what go doc prints of package erpc before its list of names.
//
// # Map
//
//	owns       the tests of documents
//	called by  go test
//	never      a command, setting or error of the documents is not tried or compared
package pages
