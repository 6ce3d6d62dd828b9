#!/bin/sh
# Runs as root inside the new image, whichever way it is built.
set -eu

groupadd --gid 1000 agent
useradd --uid 1000 --gid 1000 --create-home --shell /bin/bash agent

# The workspace is a mount that belongs to whoever owns the project, and the
# user in the box may have no entry in passwd to take a name from.
git config --system safe.directory '*'
git config --system user.name agent
git config --system user.email agent@herd-runner.invalid
git config --system init.defaultBranch main

update-ca-certificates >/dev/null 2>&1
rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb /var/log/*.log /var/log/apt
