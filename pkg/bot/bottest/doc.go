// Package bottest is the Bot API as a server for tests: it keeps chats and
// updates, checks what a bot sends as Telegram does, and fails on request. People
// in tests write and press; what both sides did is a transcript.
package bottest
