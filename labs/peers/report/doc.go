// Package report holds what measurements give: runs, comparisons of runs, and the machine
// they were made on; it reads and writes them as JSON, and shows them as text, as
// Markdown and as plots.
package report
