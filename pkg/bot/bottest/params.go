package bottest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
)

// params of a call, each as text; objects and lists as JSON.
type params = map[string]string

const maxBody = 64 << 20

// readParams reads JSON, in which Telegram takes texts for numbers, or a form.
func readParams(r *http.Request) (params, map[string][]byte, error) {
	p, files := params{}, map[string][]byte{}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch kind {
	case "application/json":
		data, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
		if err != nil {
			return nil, nil, err
		}
		var raw map[string]json.RawMessage
		if err := json.Unmarshal(data, &raw); err != nil {
			return nil, nil, errors.New("can't parse JSON object")
		}
		for k, v := range raw {
			var text string
			if json.Unmarshal(v, &text) != nil {
				text = string(v)
			}
			p[k] = text
		}
		return p, files, nil
	case "multipart/form-data":
		if err := r.ParseMultipartForm(maxBody); err != nil {
			return nil, nil, err
		}
		for k, v := range r.MultipartForm.Value {
			p[k] = v[0]
			files[k] = []byte(v[0]) // a file may come without a name
		}
		for k, v := range r.MultipartForm.File {
			f, err := v[0].Open()
			if err != nil {
				return nil, nil, err
			}
			data, err := io.ReadAll(f)
			f.Close()
			if err != nil {
				return nil, nil, err
			}
			files[k], p[k+"_name"] = data, v[0].Filename
		}
		return p, files, nil
	}
	if err := r.ParseForm(); err != nil {
		return nil, nil, err
	}
	for k, v := range r.Form {
		p[k] = v[0]
	}
	return p, files, nil
}

func number(p params, name string) (int64, *apiError) {
	n, err := strconv.ParseInt(p[name], 10, 64)
	if err != nil {
		return 0, bad("%s is invalid", name)
	}
	return n, nil
}

// button is one of an inline keyboard.
type button struct {
	Text string `json:"text"`
	URL  string `json:"url,omitempty"`
	Data string `json:"callback_data,omitempty"`
}

// markup of a message.
type markup struct {
	Inline [][]button `json:"inline_keyboard,omitempty"`
	Force  bool       `json:"force_reply,omitempty"`
}

// Telegram's limits of keyboards.
const (
	maxButtons = 100
	maxRow     = 8
	maxData    = 64
)

func readMarkup(text string) (*markup, *apiError) {
	if text == "" || text == "null" {
		return nil, nil
	}
	var m markup
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return nil, bad("can't parse reply keyboard markup JSON object")
	}
	n := 0
	for _, row := range m.Inline {
		if len(row) > maxRow {
			return nil, bad("reply markup is too long")
		}
		for _, b := range row {
			n++
			if err := checkButton(b); err != nil {
				return nil, err
			}
		}
	}
	if n > maxButtons {
		return nil, bad("reply markup is too long")
	}
	return &m, nil
}

func checkButton(b button) *apiError {
	switch {
	case b.Text == "":
		return bad("can't parse inline keyboard button: Field \"text\" must be non-empty")
	case b.URL == "" && b.Data == "":
		return bad("can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard")
	case b.URL == "" && len(b.Data) > maxData:
		return bad("BUTTON_DATA_INVALID")
	}
	return nil
}

func (m *markup) equal(o *markup) bool { return fmt.Sprint(m.rows()) == fmt.Sprint(o.rows()) }

func (m *markup) rows() [][]button {
	if m == nil {
		return nil
	}
	return m.Inline
}
