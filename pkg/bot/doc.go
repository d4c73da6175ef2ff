// Package bot is the Telegram bot, as the child process of a management server
// runs it: Telegram in, calls of the server out.
//
// It has the bot's token and no other secret, no state, and no authority of its
// own: every call names the Telegram user for whom it is made, and the server finds
// out each time who that is and what they may do.
//
//	update ─▶ filter ─▶ the chat's queue ─▶ BotWho ─▶ route ─▶ handler ─▶ Session
//	                                                            │ Call: as the user,
//	                                                            │ once per update
//	                                                            ▼
//	                                                          server
//
// An update is acknowledged to Telegram when it is handled, replies and all. After
// a crash it comes again; what it changed is then not changed twice (Done), and the
// handler shows how things are.
package bot
