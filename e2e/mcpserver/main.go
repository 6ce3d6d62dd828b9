// Command mcpserver is an MCP server of one tool, for the boxes of the tests: on
// stdin and stdout, or with an address on HTTP.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mcpserver:", err)
		os.Exit(1)
	}
}

func serve(args []string) error {
	if len(args) == 0 {
		return shop("its program").Run(context.Background(), &mcp.StdioTransport{})
	}
	listener, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	return http.Serve(listener, mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		return shop("a server that is shown " + r.Header.Get("X-Card"))
	}, nil))
}

// shop knows prices; where is what it says of itself.
func shop(where string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)
	type of struct {
		Item string `json:"item"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "price", Description: "The price of an item."}, func(_ context.Context, _ *mcp.CallToolRequest, in of) (*mcp.CallToolResult, any, error) {
		text := fmt.Sprintf("%s costs 3 thalers, says %s", in.Item, where)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	})
	return s
}
