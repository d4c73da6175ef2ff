package bot

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	tele "gopkg.in/telebot.v3"

	"github.com/meshctl/meshctl/pkg/admin"
	"github.com/meshctl/meshctl/pkg/bot/bottest"
	"github.com/meshctl/meshctl/pkg/mesh"
)

// oddUpdates are none of ours.
func oddUpdates() map[string]map[string]any {
	from := map[string]any{"id": 7, "first_name": "Ann"}
	private := map[string]any{"id": 7, "type": "private"}
	group := map[string]any{"id": -100, "type": "supergroup", "title": "Ours"}
	message := func(change map[string]any) map[string]any {
		m := map[string]any{"message_id": 1, "date": 1, "from": from, "chat": private, "text": "/make odd"}
		maps.Copy(m, change)
		return m
	}
	return map[string]map[string]any{
		"message:no sender":           message(map[string]any{"from": nil}),
		"message:no chat":             message(map[string]any{"chat": nil}),
		"message:in a group":          message(map[string]any{"chat": group}),
		"message:an anonymous admin":  message(map[string]any{"chat": group, "sender_chat": group, "from": map[string]any{"id": 1087968824, "is_bot": true}}),
		"message:in a chat's name":    message(map[string]any{"sender_chat": group}),
		"message:in another's chat":   message(map[string]any{"chat": map[string]any{"id": 8, "type": "private"}}),
		"message:forwarded":           message(map[string]any{"forward_origin": map[string]any{"type": "user", "sender_user": from, "date": 1}}),
		"message:forwarded, old form": message(map[string]any{"forward_date": 1}),
		"message:edited":              message(map[string]any{"edit_date": 2}),
		"message:through another bot": message(map[string]any{"via_bot": map[string]any{"id": 9, "is_bot": true}}),
		"message:of a bot":            message(map[string]any{"from": map[string]any{"id": 7, "is_bot": true}}),
		"message:without text":        message(map[string]any{"text": nil, "sticker": map[string]any{"file_id": "x"}}),
		"message:blank":               message(map[string]any{"text": " \n "}),
		"message:a megabyte of text":  message(map[string]any{"text": "/make " + strings.Repeat("x", 1<<20)}),
		"message:nothing at all":      {},
		"callback_query:no sender":    {"id": "1", "data": "x", "message": message(nil)},
		"callback_query:no message":   {"id": "1", "data": "x", "from": from},
		"callback_query:inline":       {"id": "1", "data": "x", "from": from, "inline_message_id": "1"},
		"callback_query:in a group":   {"id": "1", "data": "x", "from": from, "message": message(map[string]any{"chat": group})},
		"callback_query:without data": {"id": "1", "from": from, "message": message(nil)},
	}
}

// TestWhatIsNotForUsIsIgnored holds B-02: and counted, and the bot goes on.
func TestWhatIsNotForUsIsIgnored(t *testing.T) {
	o := newOffice(t)
	ann := o.person(7, "Ann", "en", operatorSelf())
	b, _ := o.run(simple())
	odd := oddUpdates()
	for name, body := range odd {
		kind, _, _ := strings.Cut(name, ":")
		o.api.Inject(kind, body)
	}
	// What is not asked for does not come; if it did it would be ignored too.
	for _, kind := range []string{"edited_message", "channel_post", "inline_query", "of_a_later_time"} {
		o.api.Inject(kind, map[string]any{"id": "1"})
	}
	ann.Write("/panic")
	ann.Write("/start")
	o.api.Wait(t, "the bot answers", func() bool { return ann.Last().Plain == "menu of ann" })
	if got := len(ann.Messages()); got != 1 || len(o.all()) != 0 {
		t.Errorf("there are %d messages, and made is %v", got, o.all())
	}
	o.api.Wait(t, "all are counted", func() bool { return b.api.State().Ignored == uint64(len(odd)) })
	if logs := o.logs.String(); !strings.Contains(logs, "handler panicked") || strings.Contains(logs, "of a handler") {
		t.Errorf("the log is\n%s", logs)
	}
}

func TestWhoIsBlockedOrAStrangerGetsNoAnswer(t *testing.T) {
	o := newOffice(t)
	blocked := o.person(8, "Eve", "en", admin.BotSelf{State: mesh.TelegramBlocked})
	stranger := o.person(9, "Sam", "en", admin.BotSelf{Settings: mesh.BotSettings{NoGuests: true}})
	b, _ := o.run(simple())
	for _, u := range []*bottest.User{blocked, stranger} {
		u.Write("/start")
		u.Write("hello")
	}
	o.api.Settle(t)
	if len(blocked.Messages())+len(stranger.Messages()) != 0 || b.api.State().Ignored != 4 {
		t.Errorf("%d ignored; %q, %q", b.api.State().Ignored, blocked.Transcript(0), stranger.Transcript(0))
	}
	stranger.Write("/start c0de") // a code is how strangers become known
	o.api.Wait(t, "an answer", func() bool { return len(stranger.Messages()) == 1 })
}

func TestScreensAreEditedInPlace(t *testing.T) {
	o := newOffice(t)
	ann := o.person(7, "Ann", "en", operatorSelf())
	o.run(simple())
	ann.Write("/start")
	o.api.Settle(t)
	menu := ann.Last().ID
	ann.Press(menu, "Next")
	o.api.Settle(t)
	ann.Press(menu, "Next")
	o.api.Settle(t)
	ann.Write("what?")
	ann.Write("/nothing")
	o.api.Settle(t)
	want := `> /start
sent #1
  | menu of ann
  [Next] [Make]
> [Next]
edited #1
  | page 1
  [Next]
> [Next]
edited #1
  | page 11
  [Next]
> what?
> /nothing
sent #2
  | <code>what?</code>
sent #3
  | <code>/nothing</code>
`
	if got := ann.Transcript(0); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestWordsAnswerAQuestion: which is open until it is answered well, or a command
// comes, and understood by the next leader.
func TestWordsAnswerAQuestion(t *testing.T) {
	o := newOffice(t)
	ann := o.person(7, "Ann", "ru", operatorSelf())
	_, end := o.run(simple())
	ann.Write("/ask new-")
	o.api.Settle(t)
	end()
	o.run(simple())
	ann.Write("one")
	o.api.Settle(t)
	ann.Write("two")
	ann.Write("/ask")
	ann.Write("bad")
	ann.Write("good")
	ann.Write("/ask")
	ann.Write("/start")
	ann.Write("three")
	o.api.Settle(t)
	if got, want := o.all(), []string{"new-one", "good"}; !slices.Equal(got, want) {
		t.Errorf("made is %v, want %v", got, want)
	}
	text := ann.Transcript(0)
	for _, want := range []string{"Так не получится", "&lt;bad&gt;", "<code>two</code>", "<code>three</code>"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
}

// TestButtonsOfOthersDoNothing holds B-06.
func TestButtonsOfOthersDoNothing(t *testing.T) {
	o := newOffice(t)
	ann := o.person(7, "Ann", "en", operatorSelf())
	bob := o.person(8, "Bob", "en", memberSelf())
	eve := o.person(9, "Eve", "en", operatorSelf())
	b, _ := o.run(simple())
	for _, u := range []*bottest.User{ann, bob, eve} {
		u.Write("/start")
	}
	o.api.Settle(t)
	menu := ann.Last()
	data := menu.DataOf("Make")
	s := &Session{User: 7, bot: b}
	other, err := b.data(s, Button{Action: "make", Args: []string{"other"}})
	if err != nil {
		t.Fatal(err)
	}
	expired, err := b.signer.write(7, 7, press{action: "make", args: []string{"x"}, changes: true}, time.Now().Add(-pressTime-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	unchanging, err := b.signer.write(7, 7, press{action: "make", args: []string{"x"}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	bob.PressData(bob.Last().ID, bob.Last().DataOf("Make"), "a member, what operators may")
	eve.PressData(eve.Last().ID, data, "another's data, forwarded")
	ann.PressData(menu.ID, other, "signed, but in no message")
	ann.PressData(menu.ID, expired, "too late, and in no message")
	ann.PressData(menu.ID, unchanging, "without its time")
	changed := "A"
	if data[0] == 'A' {
		changed = "B"
	}
	ann.PressData(menu.ID, changed+data[1:], "changed")
	ann.PressData(menu.ID, "", "no data")
	ann.PressData(99, data, "a message that is not there")
	o.api.Settle(t)
	if got := o.all(); len(got) != 0 {
		t.Errorf("made is %v", got)
	}
	if n := b.api.State().Ignored; n != 8 {
		t.Errorf("%d were counted", n)
	}
	if text := ann.Transcript(0); !strings.Contains(text, "(This button is too old. Send /start.)") || !strings.Contains(text, "(This button is not for you.)") {
		t.Errorf("got\n%s", text)
	}
	ann.Press(menu.ID, "Make") // twice at once
	ann.PressData(menu.ID, data, "Make")
	o.api.Settle(t)
	if got := o.all(); !slices.Equal(got, []string{"x"}) {
		t.Errorf("made is %v", got)
	}
	o.set(func() { o.people["9"] = admin.BotSelf{} }) // no longer an administrator
	eve.Press(eve.Last().ID, "Make")
	o.api.Settle(t)
	if got := o.all(); len(got) != 1 {
		t.Errorf("made is %v", got)
	}
}

func TestAButtonThatIsTooOldSaysSo(t *testing.T) {
	o := newOffice(t)
	ann := o.person(7, "Ann", "en", operatorSelf())
	b, _ := o.run(Routes{
		Commands: []Command{{Name: "start", Need: mesh.BotAnyone, Do: func(ctx context.Context, s *Session, _ string) error {
			old, err := s.bot.signer.write(7, 7, press{action: "make", changes: true}, s.Now.Add(-2*pressTime))
			if err != nil {
				return err
			}
			_, err = s.bot.api.Send(ctx, 7, messageWith("Make", old))
			return err
		}}},
		Actions: []Action{{Name: "make", Need: mesh.BotAnyone, Changes: true, Do: func(context.Context, *Session, []string) error {
			t.Error("it was done")
			return nil
		}}},
	})
	ann.Write("/start")
	o.api.Settle(t)
	ann.Press(ann.Last().ID, "Make")
	o.api.Settle(t)
	if text := ann.Transcript(0); !strings.Contains(text, "(The time for this is over.") || b.api.State().Ignored != 1 {
		t.Errorf("got\n%s", text)
	}
}

// TestAChangeIsMadeOnceWhateverEnds holds B-04: the leader dies between the effect
// and the answer, or between the answer and the acknowledgement.
func TestAChangeIsMadeOnceWhateverEnds(t *testing.T) {
	for name, method := range map[string]string{"before the answer": "sendMessage", "before the acknowledgement": "getUpdates"} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t)
			ann := o.person(7, "Ann", "en", operatorSelf())
			_, crash := o.run(simple())
			reached := make(chan struct{}, 100)
			o.api.Fail(func(c bottest.Call) *bottest.Fault {
				if c.Method == method && len(o.all()) > 0 {
					reached <- struct{}{}
					return &bottest.Fault{Code: 502, Body: "<html>"}
				}
				return nil
			})
			ann.Write("/make one")
			<-reached
			crash()
			o.api.Fail(nil)
			o.run(simple())
			o.api.Settle(t)
			if got := o.all(); !slices.Equal(got, []string{"one"}) {
				t.Errorf("made is %v", got)
			}
			if ann.Last().Plain != "made one" {
				t.Errorf("got\n%s", ann.Transcript(0))
			}
		})
	}
}

func TestAServerThatIsAwayIsSaid(t *testing.T) {
	o := newOffice(t)
	ann := o.person(7, "Ann", "ru", operatorSelf())
	o.set(func() { o.down = true })
	o.run(simple())
	ann.Write("/make one")
	o.api.Settle(t)
	if text := ann.Last().Plain; !strings.Contains(text, "Серверы сети") || strings.Contains(text, "quorum") || len(o.all()) != 0 {
		t.Errorf("got %q", text)
	}
}

// TestCommandsAreOfferedByRoleAndLanguage also holds that each is described.
func TestCommandsAreOfferedByRoleAndLanguage(t *testing.T) {
	o := newOffice(t)
	ann := o.person(7, "Ann", "en", operatorSelf())
	o.run(simple())
	ann.Write("/start")
	o.api.Settle(t)
	o.api.Wait(t, "they are registered", func() bool {
		return len(o.api.Commands("all_private_chats", "")) > 0 && len(o.api.Commands("all_private_chats", "ru")) > 0
	})
	if got := o.api.Commands("all_private_chats", "ru"); !slices.Contains(got, "start") || slices.Contains(got, "status") {
		t.Errorf("strangers are offered %v", got)
	}
	if got := o.api.Commands("7", ""); !slices.Contains(got, "status") {
		t.Errorf("an operator is offered %v", got)
	}
	before := len(o.api.Calls("setMyCommands"))
	ann.Write("/start")
	o.api.Settle(t)
	if n := len(o.api.Calls("setMyCommands")); n != before {
		t.Errorf("they were registered %d times more", n-before)
	}
}

func TestCommandsAreRead(t *testing.T) {
	for words, want := range map[string][2]string{
		"/start": {"start", ""}, "/Start@mesh_bot abc": {"start", "abc"}, "/add a  b": {"add", "a  b"}, "start": {"", ""},
		"/add a\nb": {"add", "a\nb"}, "/add\nb c": {"add", "b c"}, "/": {"", ""},
	} {
		if name, rest := command(words); name != want[0] || strings.Join(strings.Fields(rest), " ") != strings.Join(strings.Fields(want[1]), " ") {
			t.Errorf("%q: %q, %q", words, name, rest)
		}
	}
}

// FuzzUpdate: whatever comes as an update is sifted without harm.
func FuzzUpdate(f *testing.F) {
	for _, body := range oddUpdates() {
		text, err := json.Marshal(map[string]any{"update_id": 1, "message": body, "callback_query": body})
		if err != nil {
			f.Fatal(err)
		}
		if len(text) < 1000 {
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var u tele.Update
		if json.Unmarshal(data, &u) != nil {
			return
		}
		in, ok := sift(u)
		if !ok {
			return
		}
		if in.user == nil || in.user.ID <= 0 || (in.press == nil) == (in.words == "") || len(in.words) > maxWords {
			t.Errorf("%+v", in)
		}
		command(in.words)
		if in.press != nil {
			holds(in.press.Message.ReplyMarkup, in.press.Data)
		}
		_ = fmt.Sprint(in.replyTo)
	})
}
