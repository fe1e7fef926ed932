// Command budget reads what go test printed and compares the time of each package with its budget,
// so that a test that has become slow is seen when it does.
//
//	go run ./scripts/budget out/test/*.log
//	go run ./scripts/budget -times 2 out/race/*.log
//
// It prints the packages that took longest, and those beyond their budget. Budgets are in
// budget.txt, in seconds on two quiet cores; a package without a row has the default. Machines are
// noisy and others use them: so a package beyond its budget is named, and fails nothing.
package main
