package telegram

import "time"

// State is how the connection to the API goes.
type State struct {
	Failure  Failure // of the last poll; 0: none, Working says whether there was one
	Working  bool    // the last poll succeeded
	Failures int     // polls in a row
	Retry    time.Time
	Username string // of the bot, once known
	API      int    // which of Settings.APIs is used

	Updates, Ignored, Sent uint64 // since New
}

// Same compares all but the counts.
func (s State) Same(o State) bool {
	s.Updates, s.Ignored, s.Sent = o.Updates, o.Ignored, o.Sent
	return s == o
}

// State returns how the connection goes.
func (c *Client) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

func (c *Client) change(f func(*State)) {
	c.mu.Lock()
	before := c.state
	f(&c.state)
	c.state.API = int(c.at.used.Load())
	after := c.state
	c.mu.Unlock()
	if c.settings.Changed != nil && after != before {
		c.settings.Changed(after)
	}
}

// Ignored counts an update that was ignored or refused.
func (c *Client) Ignored() { c.change(func(s *State) { s.Ignored++ }) }

// Handled counts an update that was handled.
func (c *Client) Handled() { c.change(func(s *State) { s.Updates++ }) }
