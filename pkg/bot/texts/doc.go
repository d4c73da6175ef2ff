// Package texts is what the bot says, in each of its languages: catalogues, and
// how numbers, times and amounts are written.
//
// A catalogue is a folder of YAML files. What they nest is one key with dots:
// "device.add.ask". A text has parameters in braces, {name}, and one that says how
// many of something there are has a mapping of plural forms instead, chosen by the
// parameter {n}: one and other in English; one, few and many in Russian.
// Texts are Telegram's HTML, but for those that are used with Plain: labels of
// buttons, descriptions of commands, short answers to a tap.
package texts
