// Package telegram speaks the Bot API: it polls for updates and sends, within the
// API's limits, through any of several addresses and a proxy.
//
// telebot makes and reads the messages. It does not poll: its poller repeats every
// failure at once, and acknowledges an update before that is handled. It does not
// know the token either, which it would put into the text of its errors; the
// transport below it puts the token in.
package telegram
