// Package acme obtains certificates from public authorities: RFC 8555 with the
// challenge DNS-01, for which it writes TXT records by dynamic updates (RFC 2136)
// or by Cloudflare's API. It also reads CAA records, since whoever controls an
// entry could answer any other challenge for the names that lead there, and only
// a CAA record that names our account (RFC 8657) keeps an authority from asking.
//
//	Order: CAA ─▶ order ─▶ TXT record ─▶ seen by the zone's servers ─▶ accept ─▶ finalize ─▶ chain
//
// It knows the account's key and no other: what is certified comes as a request.
package acme
