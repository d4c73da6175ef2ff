package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshctl/meshctl/pkg/kube"
)

var (
	errRedirect      = errors.New("it sends elsewhere, where the credential does not go")
	errNotKubernetes = errors.New("the answer is not that of a Kubernetes API")
	errTooLong       = errors.New("the answer is too long")
)

// limitedError is a wish to be left alone.
type limitedError struct{ after time.Duration }

// Error is the same however long: what is reported changes only when something does.
func (e *limitedError) Error() string { return "it wants to be left alone for a while" }

// answered makes the error of an answer that is not the library's to read.
func answered(code int, body []byte) error {
	status := metav1.Status{}
	if json.Unmarshal(body, &status) != nil || status.Message == "" {
		status.Message = http.StatusText(code)
	}
	status.Code = int32(code)
	return &apierrors.StatusError{ErrStatus: status}
}

// failure says what kind of failure err is, and what the API said.
func failure(err error) (kube.Failure, string) {
	if err == nil {
		return kube.NoFailure, ""
	}
	return kindOf(err), printable(tellOf(err), 512)
}

func kindOf(err error) kube.Failure {
	if _, ok := errors.AsType[*limitedError](err); ok {
		return kube.Limited
	}
	if s, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return kindOfStatus(int(s.ErrStatus.Code))
	}
	switch {
	case errors.Is(err, errNotKubernetes), errors.Is(err, errTooLong):
		return kube.Broken
	case errors.Is(err, errRedirect):
		return kube.Other
	case isUntrusted(err):
		return kube.Untrusted
	case isRefusedCertificate(err):
		return kube.Credential
	case isNetwork(err):
		return kube.Unreachable
	}
	return kube.Broken // it could not be read
}

func kindOfStatus(code int) kube.Failure {
	switch {
	case code == http.StatusUnauthorized:
		return kube.Credential
	case code == http.StatusForbidden:
		return kube.Denied
	case code == http.StatusTooManyRequests:
		return kube.Limited
	case code >= 500:
		return kube.Broken
	}
	return kube.Other
}

func isUntrusted(err error) bool {
	_, verification := errors.AsType[*tls.CertificateVerificationError](err)
	_, record := errors.AsType[tls.RecordHeaderError](err) // it does not speak TLS
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, name := errors.AsType[x509.HostnameError](err)
	return verification || record || unknown || name
}

// isRefusedCertificate: an alert of the API about our certificate.
func isRefusedCertificate(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Op != "remote error" {
		return false
	}
	_, alert := errors.AsType[tls.AlertError](op.Err)
	return alert || strings.Contains(op.Err.Error(), "certificate")
}

func isNetwork(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// tellOf leaves out what the library says around the words of the API.
func tellOf(err error) string {
	if s, ok := errors.AsType[*apierrors.StatusError](err); ok {
		if s.ErrStatus.Message != "" {
			return s.ErrStatus.Message
		}
		return fmt.Sprintf("status %d", s.ErrStatus.Code)
	}
	if l, ok := errors.AsType[*limitedError](err); ok {
		return l.Error()
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return "no answer in time"
	}
	for _, known := range []error{errRedirect, errNotKubernetes, errTooLong} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	// Without the URL, and the ports of this side, which are others each time.
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Op + ": " + op.Err.Error()
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err.Error()
	}
	return err.Error()
}

// printable is s without what a terminal would obey, at most limit bytes of it. The
// ends of lines stay.
func printable(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, s)
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit-len("…")], "") + "…"
}
