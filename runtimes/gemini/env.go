package gemini

import "github.com/herd-runner/herd-runner/runtimes"

// routing names the variables that say where model traffic goes, with which
// credential, and where settings come from. They are the runner's: a workflow
// can not set them. All are set, if only to nothing: the CLI takes those that
// are missing from an .env file, also from one of the project.
func routing() []string {
	return []string{
		"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL",
		"GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA", "GOOGLE_APPLICATION_CREDENTIALS",
		"GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_ACCESS_TOKEN",
		"CODE_ASSIST_ENDPOINT", "CLOUD_SHELL", "GEMINI_CLI_USE_COMPUTE_ADC", "GEMINI_CLI_HOME",
		"GEMINI_CLI_SYSTEM_SETTINGS_PATH", "GEMINI_CLI_SYSTEM_DEFAULTS_PATH", "GEMINI_CLI_TRUST_WORKSPACE",
		"GEMINI_CLI_TRUSTED_FOLDERS_PATH", "GEMINI_CLI_CUSTOM_HEADERS", "GEMINI_SANDBOX", "GEMINI_SYSTEM_MD",
	}
}

// environment is what the CLI needs over the box's base environment.
func environment(task runtimes.Task) (map[string]string, error) {
	env, err := runtimes.Environment(task, map[string]string{
		// Otherwise it starts itself a second time, with the heap of the whole
		// machine, and the first of the two keeps signals to itself.
		"GEMINI_CLI_NO_RELAUNCH": "true",
		"NO_COLOR":               "1",
	}, routing())
	if err != nil {
		return nil, err
	}
	for _, name := range routing() {
		env[name] = ""
	}
	env["GEMINI_CLI_HOME"] = ConfigHome(task.Box.Home)
	switch {
	case task.Box.Gateway != "":
		env["GOOGLE_GEMINI_BASE_URL"] = "http://" + task.Box.Gateway
	case task.Config.BaseURL != "":
		env["GOOGLE_GEMINI_BASE_URL"] = task.Config.BaseURL
	}
	env["GEMINI_API_KEY"] = task.Credential.Token
	return env, nil
}
