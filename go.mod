module github.com/herd-runner/herd-runner

go 1.26
