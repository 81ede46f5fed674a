"""Jobs that end for reasons of the machine. A server on loopback answers as an ill registry does; what only GitHub itself can print
is written by hand after its documentation and public threads, and marked so.
"""

from __future__ import annotations

from case import Case, told

ILL = """import http.server, os, threading, subprocess, sys, socket


class Ill(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        listing = self.path.startswith("/simple/") and "LISTS" in os.environ
        page = b'<a href="/idna-3.7-py3-none-any.whl">idna-3.7-py3-none-any.whl</a>' if listing else b""
        self.send_response(200 if listing else int(os.environ["ANSWER"]))
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Ill)
threading.Thread(target=server.serve_forever, daemon=True).start()
command = [part.replace("PORT", str(server.server_port)) for part in sys.argv[1:]]
sys.exit(subprocess.run(command).returncode)
"""
_FILES = {"ill.py": ILL, "package.json": '{"name": "app", "version": "1.0.0", "dependencies": {"semver": "7.6.0"}}\n'}
# Of this machine's own settings of the package clients nothing counts: the ill server alone is asked.
_ILL = {
    "PIP_CONFIG_FILE": "/dev/null",
    "PIP_FIND_LINKS": "",
    "PIP_EXTRA_INDEX_URL": "",
    "PIP_IGNORE_INSTALLED": "1",
    "UV_FIND_LINKS": "",
    "UV_EXTRA_INDEX_URL": "",
    "UV_INDEX": "",
}


def _stamped(*lines: str) -> str:
    return "\ufeff" + "".join(f"2026-01-02T03:04:{at:02}.1234567Z {line}\n" for at, line in enumerate(lines))


def _step(run: str, *lines: str) -> str:
    ready = (
        "Current runner version: '2.328.0'",
        "##[group]Run actions/checkout@v4",
        "with:",
        "  repository: acme/app",
        "##[endgroup]",
        "Syncing repository: acme/app",
    )
    return _stamped(
        *ready, f"##[group]Run {run}", f"\x1b[36;1m{run}\x1b[0m", "shell: /usr/bin/bash -e {0}", "##[endgroup]", *lines
    )


_STARTED = ("============================= test session starts ==============================", "platform linux -- Python 3.11.9, pytest-8.4.0, pluggy-1.6.0",
            "collected 214 items", "", "tests/test_a.py ..........                                                [  4%]")  # fmt: skip
CASES = (
    Case("pip-503", "python ill.py python -m pip install --target ../t --no-cache-dir --retries 1 --index-url http://127.0.0.1:PORT/simple idna", "infrastructure", _FILES, env=_ILL | {"ANSWER": "503", "LISTS": "1"}),
    Case("pip-429", "python ill.py python -m pip install --target ../t --no-cache-dir --retries 1 --index-url http://127.0.0.1:PORT/simple idna", "infrastructure", _FILES, env=_ILL | {"ANSWER": "429", "LISTS": "1"}),
    Case("pip-dns", "python -m pip install --target ../t --no-cache-dir --retries 1 --index-url https://index.invalid/simple idna", "infrastructure", env=_ILL),
    Case("uv-503", "python ill.py uv pip install --no-config --no-cache --target ../t --python 3.11 --index-url http://127.0.0.1:PORT/simple idna", "infrastructure", _FILES, env=_ILL | {"ANSWER": "503", "UV_HTTP_RETRIES": "0"}),
    Case("npm-503", "python ill.py npm install --no-audit --cache ../npm --fetch-retries 0 --registry http://127.0.0.1:PORT", "infrastructure", _FILES, env={"ANSWER": "503"}),
    Case("npm-dns", "npm install --no-audit --cache ../npm --fetch-retries 0 --registry https://index.invalid", "infrastructure", _FILES),
    Case("curl-502", "python ill.py curl -fsS http://127.0.0.1:PORT/install.sh -o install.sh", "infrastructure", _FILES, env={"ANSWER": "502"}),
    Case("git-dns", "git clone https://git.invalid/acme/dep.git", "infrastructure"),
    Case("disk-full", "echo data > /dev/full", "infrastructure"),
    Case("shell-command-missing", "pytset -q", "dependency", built=[told("pytset")]),
    Case("script-exit", "exit 3", "unknown"),
    Case("runner-shutdown", "pytest", "infrastructure", log=_step("pytest", *_STARTED, "##[error]The runner has received a shutdown signal. This can happen when the runner service is stopped, or a manually started runner is canceled.", "##[error]The operation was canceled.")),
    Case("runner-lost", "pytest", "infrastructure", log=_step("pytest", *_STARTED, "##[error]The hosted runner lost communication with the server. Anything in your workflow that terminates the runner process, starves it for CPU/Memory, or blocks its network access can cause this error.")),
    Case("job-time-limit", "pytest", "timeout", log=_step("pytest", *_STARTED, "##[error]The job running on runner GitHub Actions 12 has exceeded the maximum execution time of 10 minutes.", "##[error]The operation was canceled.")),
    Case("step-time-limit", "pytest", "timeout", log=_step("pytest", *_STARTED, "##[error]The action 'Run pytest' has timed out after 5 minutes.")),
    Case("runner-disk-full", "docker build .", "infrastructure", log=_step("docker build .", "#9 12.3 Unpacking libc6 ...", "System.IO.IOException: No space left on device : '/home/runner/runners/2.328.0/_diag/Worker_20260102-030405-utc.log'", "##[error]No space left on device : '/home/runner/runners/2.328.0/_diag/pages/a.log'")),
    Case("docker-pull-limit", "docker compose up", "infrastructure", log=_step("docker compose up -d", " postgres Pulling ", " postgres Error toomanyrequests: You have reached your pull rate limit. You may increase the limit by authenticating and upgrading", "Error response from daemon: toomanyrequests: You have reached your pull rate limit.", "##[error]Process completed with exit code 1.")),
    Case("action-download", "", "infrastructure", log=_stamped("Current runner version: '2.328.0'", "Prepare all required actions", "Getting action download info", "##[warning]Failed to download action 'https://index.example/repos/actions/setup-python/tarball/abc'. Error: Response status code does not indicate success: 502 (Bad Gateway).", "##[warning]Back off 12.3 seconds before retry.", "##[error]Response status code does not indicate success: 502 (Bad Gateway).")),
    Case("checkout-500", "", "infrastructure", log=_stamped("##[group]Run actions/checkout@v4", "with:", "  repository: acme/app", "##[endgroup]", "##[group]Fetching the repository", "[command]/usr/bin/git -c protocol.version=2 fetch --no-tags --prune --depth=1 origin", "remote: Internal Server Error", "##[error]fatal: unable to access 'https://github.com/acme/app/': The requested URL returned error: 500", "The process '/usr/bin/git' failed with exit code 128", "Waiting 12 seconds before trying again", "##[error]fatal: unable to access 'https://github.com/acme/app/': The requested URL returned error: 500", "##[error]The process '/usr/bin/git' failed with exit code 128")),
    Case("api-rate-limit", "", "infrastructure", log=_stamped("##[group]Run actions/setup-python@v5", "with:", "  python-version: 3.14", "##[endgroup]", "##[error]API rate limit exceeded for installation. If you reach out to GitHub Support for help, please include the request ID 0000.")),
    Case("cancelled", "pytest", "unknown", log=_step("pytest", *_STARTED, "##[error]The operation was canceled.")),
    Case("compiler-killed", "make", "out-of-memory", log=_step("make -j8", "g++ -O2 -c big.cpp -o big.o", "g++: fatal error: Killed signal terminated program cc1plus", "compilation terminated.", "make: *** [Makefile:4: big.o] Error 1", "##[error]Process completed with exit code 2.")),
    Case("services-unhealthy", "", "infrastructure", log=_stamped("##[group]Starting postgres service container", "[command]/usr/bin/docker pull postgres:16", "Error response from daemon: Get \"https://index.example/v2/\": net/http: request canceled while waiting for connection (Client.Timeout exceeded while awaiting headers)", "##[warning]Docker pull failed with exit code 1, back off 3.4 seconds before retry.", "##[error]Docker pull failed with exit code 1")),
)  # fmt: skip
