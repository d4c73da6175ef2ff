// Package subscription turns what a device may connect to into the documents
// that its client reads: lists of links, and the configurations of sing-box,
// Clash, Xray, curl and browsers. It does no I/O, and knows no state.
package subscription
