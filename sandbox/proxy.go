package sandbox

// ProxyEnv is the environment that leads programs to the HTTP proxy at addr
// (host:port), and past it to the box's own loopback, where the gateway is. Each
// name is what some of them read: curl takes http_proxy in lower case only, node
// looks at proxies only when it is told to.
func ProxyEnv(addr string) map[string]string {
	env := map[string]string{"NODE_USE_ENV_PROXY": "1"}
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
		env[name] = "http://" + addr
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		env[name] = "localhost,127.0.0.1,::1"
	}
	return env
}
