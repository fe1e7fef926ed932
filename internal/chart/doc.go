// Package chart draws the pictures of commands: lines and bars, ours and a paper's, as SVG or PNG.
//
// # Map
//
//	owns       how pictures look
//	called by  cmd/erpc, internal/paperlab
//	never      a picture without a point is written
package chart
