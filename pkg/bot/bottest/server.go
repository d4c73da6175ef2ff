package bottest

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// Server is the Bot API for one bot.
type Server struct {
	URL      string
	Username string

	token string
	http  *httptest.Server

	mu       sync.Mutex // guards what is below
	fault    func(Call) *Fault
	calls    []Call
	updates  []update
	lastID   int // of updates
	offset   int // updates before it are acknowledged
	poll     chan struct{}
	changed  chan struct{} // closed and made anew with every change
	chats    map[int64]*chat
	lastMsg  int
	presses  map[string]int64 // callback id → user
	commands map[string][]string
	webhook  bool
}

type update struct {
	id   int
	kind string // message, callback_query, …
	body map[string]any
}

// Call is a call that a bot made.
type Call struct {
	Method string
	Params map[string]string
	At     time.Time
	// Answered is the status of the answer.
	Answered int
}

// Fault is how a call fails, or is late.
type Fault struct {
	Code        int // of HTTP and of the answer; 0: the connection is cut
	Description string
	RetryAfter  int
	Body        string        // instead of an answer
	After       time.Duration // the call has its effect, and is answered so late
	Effect      bool          // it has its effect, and then fails
}

// New starts a server, which ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := NewServer("127.0.0.1:0")
	t.Cleanup(s.Close)
	return s
}

// NewServer starts a server at an address, to be closed by the caller. It panics
// when it cannot listen.
func NewServer(addr string) *Server {
	s := &Server{
		Username: "mesh_bot", token: fmt.Sprintf("4711:%s", mesh.NewSecret(26).Reveal()),
		lastID: 1000, changed: make(chan struct{}), chats: map[int64]*chat{}, presses: map[string]int64{}, commands: map[string][]string{},
	}
	ln, err := net.Listen("tcp", addr) //nolint:noctx // for tests, at loopback
	if err != nil {
		panic(err)
	}
	s.http = &httptest.Server{Listener: ln, Config: &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}}
	s.http.Start()
	s.URL = s.http.URL
	return s
}

// Close ends the server, polls and all.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// Token is the bot's.
func (s *Server) Token() mesh.Secret { return mesh.Secret(s.token) }

// Revoke makes the token one that the API does not know; SetToken another.
func (s *Server) Revoke() { s.SetToken("4711:revoked") }

// SetToken changes the token that the API knows.
func (s *Server) SetToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
}

// Webhook has polls refused, as if somebody had set one.
func (s *Server) Webhook() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.webhook = true
}

// Fail asks f for every call whether, and how, it fails; nil: it does not.
func (s *Server) Fail(f func(Call) *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// Calls are all calls of a method so far; "": of any.
func (s *Server) Calls(method string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Call
	for _, c := range s.calls {
		if method == "" || c.Method == method {
			out = append(out, c)
		}
	}
	return out
}

// Commands are those that apps offer: in which scope ("all_private_chats", or the
// number of a chat) and language.
func (s *Server) Commands(scope, lang string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.commands[scope+"/"+lang]
}

// apiError is an answer that is not OK.
type apiError struct {
	code int
	text string
	wait int
}

func bad(format string, args ...any) *apiError {
	return &apiError{code: http.StatusBadRequest, text: "Bad Request: " + fmt.Sprintf(format, args...)}
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, method, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/bot"), "/")
	s.mu.Lock()
	known := ok && token == s.token
	s.mu.Unlock()
	if !known {
		answer(w, nil, &apiError{code: http.StatusUnauthorized, text: "Unauthorized"})
		return
	}
	p, files, err := readParams(r)
	if err != nil {
		answer(w, nil, bad("%v", err))
		return
	}
	call := Call{Method: method, Params: p, At: time.Now()}
	s.mu.Lock()
	fault := s.fault
	at := len(s.calls)
	s.calls = append(s.calls, call)
	s.mu.Unlock()
	var f *Fault
	if fault != nil {
		f = fault(call)
	}
	if f != nil && !f.Effect && f.After == 0 {
		s.fail(w, at, f)
		return
	}
	result, failed := s.do(r, method, p, files)
	if f != nil {
		if sleep(r, f.After); f.Effect {
			s.fail(w, at, f)
			return
		}
	}
	s.answered(at, answer(w, result, failed))
}

func sleep(r *http.Request, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-r.Context().Done():
	case <-timer.C:
	}
}

func (s *Server) answered(at, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[at].Answered = status
}

func (s *Server) fail(w http.ResponseWriter, at int, f *Fault) {
	switch {
	case f.Code == 0:
		panic(http.ErrAbortHandler)
	case f.Body != "":
		w.WriteHeader(f.Code)
		_, _ = w.Write([]byte(f.Body))
		s.answered(at, f.Code)
	default:
		s.answered(at, answer(w, nil, &apiError{f.Code, f.Description, f.RetryAfter}))
	}
}

func answer(w http.ResponseWriter, result any, e *apiError) int {
	body := map[string]any{"ok": true, "result": result}
	code := http.StatusOK
	if e != nil {
		code = e.code
		body = map[string]any{"ok": false, "error_code": e.code, "description": e.text}
		if e.wait > 0 {
			body["parameters"] = map[string]any{"retry_after": e.wait}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // a bot that is gone needs no answer
	return code
}

// change tells whoever waits that something changed. Callers hold s.mu.
func (s *Server) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Server) do(r *http.Request, method string, p params, files map[string][]byte) (any, *apiError) {
	if method == "getUpdates" {
		return s.getUpdates(r, p)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.change()
	switch method {
	case "getMe":
		return map[string]any{"id": 4711, "is_bot": true, "first_name": "Mesh", "username": s.Username}, nil
	case "deleteWebhook":
		s.webhook = false
		return true, nil
	case "sendMessage":
		return s.sendMessage(p)
	case "editMessageText":
		return s.editMessageText(p)
	case "deleteMessage":
		return s.deleteMessage(p)
	case "answerCallbackQuery":
		return s.answerCallback(p)
	case "sendPhoto":
		return s.sendPhoto(p, files)
	case "sendDocument":
		return s.sendDocument(p, files)
	case "setMyCommands":
		return s.setCommands(p)
	}
	return nil, &apiError{code: http.StatusNotFound, text: "Not Found: method not found"}
}
