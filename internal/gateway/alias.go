package gateway

import (
	"encoding/json"
	"slices"
	"strings"
)

// rename has the exchange ask for the model that the operator's word for it
// stands for. Nothing else of the request changes.
func (x *exchange) rename() {
	named := x.s.gw.model(x.req.model)
	if named == x.req.model {
		return
	}
	if raw, ok := x.req.parts["model"]; ok {
		quoted, err := json.Marshal(named)
		if err != nil {
			return
		}
		// The part is a slice of the body up to the body's own end.
		at := cap(x.body) - cap(raw)
		x.body = slices.Concat(x.body[:at], quoted, x.body[at+len(raw):])
	}
	if x.req.endpoint.model != "" { // Gemini's stands in the path
		x.path = strings.Replace(x.path, "/models/"+x.req.model+":", "/models/"+named+":", 1)
	}
	x.req.model = named
}
