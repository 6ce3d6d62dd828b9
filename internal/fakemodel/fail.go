package fakemodel

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// fail answers with an error in the shape of the API that path belongs to.
func (x *exchange) fail(code int, kind, message string) {
	id := "req_fake_" + strconv.Itoa(code)
	h := x.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Request-Id", id)
	if v := x.script["ra"]; v != "" {
		h.Set("Retry-After", v)
	}
	if v := x.script["sr"]; v != "" {
		h.Set("X-Should-Retry", v)
	}
	x.w.WriteHeader(code)
	var v any
	switch {
	case strings.HasSuffix(x.path, "/messages"):
		v = object{"type": "error", "error": object{"type": kind, "message": message}, "request_id": id}
	case strings.Contains(x.path, "enerateContent"):
		v = object{"error": object{"code": code, "message": message, "status": geminiStatus(code)}}
	default:
		v = object{"error": object{"message": message, "type": kind, "code": kind, "param": nil}}
	}
	writeString(x.w, encode(v)+"\n")
}

func geminiStatus(code int) string {
	switch code {
	case 400:
		return "INVALID_ARGUMENT"
	case 401:
		return "UNAUTHENTICATED"
	case 403:
		return "PERMISSION_DENIED"
	case 404:
		return "NOT_FOUND"
	case 429:
		return "RESOURCE_EXHAUSTED"
	case 500:
		return "INTERNAL"
	case 503:
		return "UNAVAILABLE"
	}
	return ""
}

// failAs plays the failure named f: an HTTP status or one of Script's words.
func (x *exchange) failAs(f string) {
	switch f {
	case "400":
		x.fail(400, "invalid_request_error", "fake bad request")
	case "401":
		x.fail(401, "authentication_error", "invalid x-api-key")
	case "402":
		x.fail(402, "billing_error", "fake billing problem")
	case "403":
		x.fail(403, "permission_error", "fake forbidden")
	case "404":
		x.fail(404, "not_found_error", "model: fake-model")
	case "413":
		x.fail(413, "request_too_large", "Request exceeds the maximum size")
	case "429":
		x.fail(429, "rate_limit_error", "This request would exceed your account's rate limit. Please try again later.")
	case "500":
		x.fail(500, "api_error", "Internal server error")
	case "502":
		x.fail(502, "api_error", "Bad gateway")
	case "503":
		x.fail(503, "api_error", "Service unavailable")
	case "529":
		x.fail(529, "overloaded_error", "Overloaded")
	case "credit":
		x.fail(400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.")
	case "toolong":
		x.fail(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")
	case "spend":
		x.fail(400, "invalid_request_error", "You have reached your specified API usage limits. You will regain access on 2099-01-01 at 00:00 UTC.")
	default:
		x.breakAs(f)
	}
}

// breakAs plays failures below the API's own error shape.
func (x *exchange) breakAs(f string) {
	h := x.w.Header()
	switch f {
	case "hang":
		<-x.r.Context().Done()
	case "html":
		h.Set("Content-Type", "text/html")
		x.w.WriteHeader(http.StatusBadGateway)
		writeString(x.w, "<html><body>502 bad gateway</body></html>")
	case "empty":
		h.Set("Content-Type", "text/event-stream")
	case "garbagejson":
		h.Set("Content-Type", "application/json")
		writeString(x.w, `{"hello":`)
	case "reset":
		x.cut(true)
	case "malformed":
		h.Set("Content-Type", "text/event-stream")
		writeString(x.w, "event: message_start\ndata: {this is not json\n\n")
		flush(x.w)
	case "sseerror":
		h.Set("Content-Type", "text/event-stream")
		x.streamError()
	case "truncated", "hangstream":
		h.Set("Content-Type", "text/event-stream")
		x.partial()
		flush(x.w)
		if f == "hangstream" {
			<-x.r.Context().Done()
			return
		}
		x.cut(false)
	default:
		http.Error(x.w, fmt.Sprintf("fakemodel: unknown failure %q", f), http.StatusInternalServerError)
	}
}

// streamError is how each API says in a stream that it fails.
func (x *exchange) streamError() {
	const message = "Overloaded"
	switch {
	case strings.HasSuffix(x.path, "/messages"):
		sse(x.w, "error", object{"type": "error", "error": object{"type": "overloaded_error", "message": message}})
	case strings.HasSuffix(x.path, "/responses"):
		sse(x.w, "response.failed", object{"type": "response.failed", "sequence_number": 1, "response": object{"id": "resp_failed", "object": "response",
			"status": "failed", "output": list{}, "usage": nil, "error": object{"code": "server_is_overloaded", "message": message}}})
	case strings.Contains(x.path, "enerateContent"):
		writeString(x.w, "data: "+encode(object{"error": object{"code": 503, "message": message, "status": "UNAVAILABLE"}})+"\r\n\r\n")
	default:
		writeString(x.w, "data: "+encode(object{"error": object{"message": message, "type": "server_error", "code": nil}})+"\n\n")
	}
}

// partial writes the beginning of an answer.
func (x *exchange) partial() {
	switch {
	case strings.HasSuffix(x.path, "/messages"):
		sse(x.w, "message_start", anthropicStart("msg_trunc", "fake-model", usage{Input: 10}))
		sse(x.w, "content_block_start", object{"type": "content_block_start", "index": 0, "content_block": object{"type": "text", "text": ""}})
		sse(x.w, "content_block_delta", object{"type": "content_block_delta", "index": 0, "delta": object{"type": "text_delta", "text": "partial "}})
	case strings.HasSuffix(x.path, "/responses"):
		sse(x.w, "response.created", object{"type": "response.created", "response": object{"id": "resp_trunc"}})
	case strings.Contains(x.path, "enerateContent"):
		writeString(x.w, `data: {"candidates":[{"content":{"role":"model","parts":[{"text":"partial "}]},"index":0}]}`+"\r\n\r\n")
	default:
		writeString(x.w, `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":"partial "}}]}`+"\n\n")
	}
}

// cut ends the connection without ending the answer; hard sends a TCP reset.
func (x *exchange) cut(hard bool) {
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok && hard {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
