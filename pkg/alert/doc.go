// Package alert decides what people are told to look at: a table of rules, and one
// pure step from the alerts that stand, and what is the case now, to the alerts
// that stand next. It knows no store and no clock.
//
//	events of the last two days ──FromEvents──┐
//	                                          ├──▶ Condition … ──Step──▶ Change …
//	a look at the state ──────────────────────┘
//
// Everything is decided from what is the case, never from what has just happened,
// so that whoever takes over needs nothing but the stored alerts and the events.
package alert
