# Tries: find credentials in the environment and in the usual files
# Idea: CDK ak-leakage; deepce's environment
# Docker: breached with --env AWS_SECRET_ACCESS_KEY=probe
# runc: held
# gVisor: held
words = re.compile("SECRET|TOKEN|PASSW|API_?KEY|CREDENTIAL|PRIVATE", re.I)
for name in os.environ:
    if words.search(name): breached(name)
for path in ("~/.docker/config.json", "~/.aws/credentials", "~/.kube/config", "~/.ssh/id_rsa", "~/.netrc", "~/.git-credentials",
             "/root/.docker/config.json", "/root/.ssh/id_rsa", "/run/secrets", "/var/run/secrets"):
    if os.path.exists(os.path.expanduser(path)): breached(path)
