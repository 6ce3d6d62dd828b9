package agent

import (
	"io"
	"net/http"
)

// maxErrorBody bounds what is read of an answer that is no success, in bytes.
const maxErrorBody = 64 << 10

// modelTransport carries requests to the model. It cuts the body of an answer that
// is no success, which the SDKs read to its end.
type modelTransport struct{}

func (modelTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err == nil && resp.StatusCode != http.StatusOK {
		resp.Body = cutBody{io.LimitReader(resp.Body, maxErrorBody), resp.Body}
	}
	return resp, err
}

type cutBody struct {
	io.Reader
	io.Closer
}

func modelClient() *http.Client { return &http.Client{Transport: modelTransport{}} }
